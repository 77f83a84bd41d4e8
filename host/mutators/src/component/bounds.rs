//! Checks what a file would cost the compiler, before it is compiled.
//!
//! The compiler cannot be interrupted, and its time and memory grow faster than the file: 30,000 nested loops, 1.7 KB as shipped,
//! take 23 s. So each quantity that makes it slow has a bound, several times what the largest standard plugin has.
//! The worst files within the bounds that were found take about five seconds of processor time (60,000 branches, in functions
//! that are at their bound) or about 200 MiB (100,000 calls in one function). Most files at a bound take less than a second.

mod types;

use std::collections::HashMap;

use wasmparser::{
    CanonicalFunction, ComponentCanonicalSectionReader, ComponentInstance, CompositeInnerType,
    ConstExpr, DataKind, ElementItems, ElementKind, FuncToValidate, FuncValidator,
    FuncValidatorAllocations, FunctionBody, Instance, ModuleArity, Operator, Parser, Payload,
    RecGroup, TableInit, ValidPayload, Validator, ValidatorResources, WasmFeatures,
};

use super::{METADATA, damaged};
use crate::error::PluginError;
use crate::file::or_large;
use crate::limits::PluginSize;

/// The most of something that a file may have, nested modules and components included. The comment above each bound says what the
/// largest standard plugin has.
#[derive(Clone, Copy)]
struct Bound {
    most: u64,
    what: &'static str,
    /// How many times as many a large plugin may have.
    when_large: u64,
}

/// CPython has up to six times as much as a plugin of the standard size may have, but for [`Bound::when_large`].
const WHEN_LARGE: u64 = 8;

impl Bound {
    const fn new(most: u64, what: &'static str) -> Self {
        let when_large = WHEN_LARGE;
        Self {
            most,
            what,
            when_large,
        }
    }
}

/// Counts over a file, or over one function, so far.
struct Counts {
    size: PluginSize,
    /// The index of the function that is counted; none outside of functions.
    function: Option<u32>,
    /// By what is counted.
    found: HashMap<&'static str, u64>,
}

impl Counts {
    fn new(size: PluginSize, function: Option<u32>) -> Self {
        Self {
            size,
            function,
            found: HashMap::new(),
        }
    }

    fn add(&mut self, bound: Bound, more: impl TryInto<u64>) -> Result<(), PluginError> {
        let more = more.try_into().unwrap_or(u64::MAX);
        let found = self.found.entry(bound.what).or_default();
        *found = found.saturating_add(more);
        let found = *found;
        self.check(bound, found)
    }

    /// Checks what a plugin of this size has.
    fn check(&self, bound: Bound, found: u64) -> Result<(), PluginError> {
        let most = match self.size {
            PluginSize::Standard => bound.most,
            PluginSize::Large => bound.most.saturating_mul(bound.when_large),
        };
        if found <= most {
            return Ok(());
        }
        let in_function = |index| format!(" in function {index}");
        Err(PluginError::TooLarge(format!(
            "has more than {most} {}{}; compiling it would take too long{}",
            bound.what,
            self.function.map(in_function).unwrap_or_default(),
            or_large(self.size)
        )))
    }
}

// 115 KB.
const CODE: Bound = Bound::new(2 << 20, "bytes of code");
// 264.
const FUNCTIONS: Bound = Bound::new(5_000, "functions");
// None; encoded as a component it has five.
const MODULES: Bound = Bound::new(16, "nested modules and components");
/// For components that call each other the compiler would generate adapters.
const ADAPTER: &str = "is composed of several components, but a plugin must be a single one; link the code into one core module, and build the plugin from that";
/// How deeply components may be nested; toolchains make two or three levels.
const NESTING: usize = 16;
// 17; encoded as a component 33.
const TYPES: Bound = Bound::new(1_000, "types");
// 16; encoded as a component 43.
const IMPORTS: Bound = Bound::new(1_000, "imports");
// 12; encoded as a component 37.
const EXPORTS: Bound = Bound::new(1_000, "exports");
// 3.
const GLOBALS: Bound = Bound::new(10_000, "globals");
// 2.
const SEGMENTS: Bound = Bound::new(10_000, "data and element segments");
// None; encoded as a component 114.
const PARTS: Bound = Bound::new(2_000, "instances, aliases and other parts of a component");
// 316.
const LOOPS: Bound = Bound::new(3_000, "loops");
// 6,100.
const BRANCHES: Bound = Bound::new(60_000, "branches, checked accesses and divisions");
// 730.
const TARGETS: Bound = Bound::new(50_000, "targets of br_table");
// 200,000: the locals and operands at each branch; at a loop they count three times.
const LIVE_VALUES: Bound = Bound::new(2_000_000, "values that are live across branches");
// 7,000.
const CALLS: Bound = Bound::new(100_000, "calls, parameters and results of calls");
// 102.
const DETOURS: Bound = Bound::new(
    5_000,
    "indirect calls and operations on tables and whole memories",
);

// 9.
const SIGNATURE: Bound = Bound::new(64, "parameters and results in one type");
// 20 KB.
const BODY: Bound = Bound::new(256 << 10, "bytes of code");
// 75.
const LOCALS: Bound = Bound::new(2_000, "locals");
// 70.
const DEPTH: Bound = Bound::new(500, "nested blocks");
// 43.
const FUNCTION_LOOPS: Bound = Bound::new(1_000, "loops");
// 1,100. The compiler's time grows faster than their number.
const FUNCTION_BRANCHES: Bound = Bound::new(5_000, "branches, checked accesses and divisions");
// None. The compiler's memory grows with the square of their number.
const BLOCK_VALUES: Bound = Bound::new(2_000, "parameters and results of blocks");

// 23.
const EXPRESSIONS: Bound = Bound::new(64 << 10, "bytes of initializer expressions");
// 59.
const ENTRIES: Bound = Bound::new(100_000, "entries in element segments");
// 64.
const VALUES: Bound = Bound::new(10_000, "values that instantiation initializes");

/// Checks a file against all bounds, and stops at the first one that it exceeds.
pub(super) fn check(wasm: &[u8], size: PluginSize) -> Result<(), PluginError> {
    // The engine itself refuses the features that it does not support.
    let mut validator = Validator::new_with_features(WasmFeatures::all());
    let mut allocations = FuncValidatorAllocations::default();
    let mut file = FileCounts {
        counts: Counts::new(size, None),
        depth: 0,
        component_types: types::Types::new(size),
    };
    for payload in Parser::new(0).parse_all(wasm) {
        let payload = payload.map_err(damaged)?;
        file.section(&payload, wasm)?;
        if let ValidPayload::Func(function, body) = validator.payload(&payload).map_err(damaged)? {
            allocations = file.function(function, &body, allocations)?;
        }
    }
    Ok(())
}

/// Counts over the file so far.
struct FileCounts {
    counts: Counts,
    /// How deeply the current component or module is nested.
    depth: usize,
    component_types: types::Types,
}

impl FileCounts {
    /// Counts the items of a section by its header, before the section is read.
    fn section(&mut self, payload: &Payload<'_>, wasm: &[u8]) -> Result<(), PluginError> {
        self.component_types.section(payload, wasm)?;
        let counts = &mut self.counts;
        match payload {
            Payload::CodeSectionStart { count, size, .. } => {
                counts.add(FUNCTIONS, *count)?;
                counts.add(CODE, *size)?;
            }
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => {
                self.depth += 1;
                if self.depth > NESTING {
                    return Err("nests components too deeply".into());
                }
                counts.add(MODULES, 1_u32)?;
            }
            Payload::End(_) => self.depth = self.depth.saturating_sub(1),
            Payload::TypeSection(section) => {
                counts.add(TYPES, section.count())?;
                for group in section.clone() {
                    self.recursive_types(&group.map_err(damaged)?)?;
                }
            }
            Payload::ImportSection(section) => counts.add(IMPORTS, section.count())?,
            Payload::ComponentImportSection(section) => counts.add(IMPORTS, section.count())?,
            Payload::ExportSection(section) => counts.add(EXPORTS, section.count())?,
            Payload::ComponentExportSection(section) => counts.add(EXPORTS, section.count())?,
            Payload::GlobalSection(section) => counts.add(GLOBALS, section.count())?,
            Payload::DataSection(section) => counts.add(SEGMENTS, section.count())?,
            Payload::ElementSection(section) => counts.add(SEGMENTS, section.count())?,
            Payload::CustomSection(section) if section.name().starts_with(METADATA) => {
                self.component_types.metadata(section.data())?;
            }
            _ => self.linked(payload)?,
        }
        self.initialized(payload)
    }

    /// Counts the instances, aliases and lifted or lowered functions of a component.
    fn linked(&mut self, payload: &Payload<'_>) -> Result<(), PluginError> {
        match payload {
            Payload::InstanceSection(section) => {
                self.parts(section.count())?;
                for instance in section.clone() {
                    self.parts(match instance.map_err(damaged)? {
                        Instance::Instantiate { args, .. } => args.len(),
                        Instance::FromExports(exports) => exports.len(),
                    })?;
                }
            }
            Payload::ComponentInstanceSection(section) => {
                self.parts(section.count())?;
                for instance in section.clone() {
                    self.parts(match instance.map_err(damaged)? {
                        ComponentInstance::Instantiate { args, .. } => args.len(),
                        ComponentInstance::FromExports(exports) => exports.len(),
                    })?;
                }
            }
            Payload::ComponentAliasSection(section) => self.parts(section.count())?,
            Payload::ComponentCanonicalSection(section) => {
                self.parts(section.count())?;
                self.lifted(section)?;
            }
            _ => {}
        }
        Ok(())
    }

    fn parts(&mut self, more: impl TryInto<u64>) -> Result<(), PluginError> {
        let more = more.try_into().unwrap_or(u64::MAX);
        self.counts.add(PARTS, more)?;
        self.component_types.uses(more)
    }

    /// Between components that lift and lower among themselves the compiler generates adapters, whose size depends on the types.
    fn lifted(&self, section: &ComponentCanonicalSectionReader<'_>) -> Result<(), PluginError> {
        for function in section.clone() {
            let is_between = matches!(
                function.map_err(damaged)?,
                CanonicalFunction::Lift { .. } | CanonicalFunction::Lower { .. }
            );
            if is_between && self.depth > 0 {
                return Err(ADAPTER.into());
            }
        }
        Ok(())
    }

    /// Counts what initializes globals, tables and memory: the compiler makes one function of all expressions that are not constants.
    fn initialized(&mut self, payload: &Payload<'_>) -> Result<(), PluginError> {
        match payload {
            Payload::GlobalSection(section) => {
                for global in section.clone() {
                    self.expression(&global.map_err(damaged)?.init_expr)?;
                }
            }
            Payload::TableSection(section) => {
                for table in section.clone() {
                    if let TableInit::Expr(value) = table.map_err(damaged)?.init {
                        self.expression(&value)?;
                    }
                }
            }
            Payload::DataSection(section) => {
                for data in section.clone() {
                    if let DataKind::Active { offset_expr, .. } = data.map_err(damaged)?.kind {
                        self.expression(&offset_expr)?;
                    }
                }
            }
            Payload::ElementSection(section) => {
                for element in section.clone() {
                    let element = element.map_err(damaged)?;
                    if let ElementKind::Active { offset_expr, .. } = &element.kind {
                        self.expression(offset_expr)?;
                    }
                    let is_set = !matches!(element.kind, ElementKind::Declared);
                    self.entries(element.items, is_set)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn entries(&mut self, items: ElementItems<'_>, is_set: bool) -> Result<(), PluginError> {
        match items {
            ElementItems::Functions(items) => {
                self.counts.add(ENTRIES, items.count())?;
                if is_set {
                    self.counts.add(VALUES, items.count())?;
                }
            }
            ElementItems::Expressions(_, items) => {
                self.counts.add(ENTRIES, items.count())?;
                for item in items {
                    self.expression(&item.map_err(damaged)?)?;
                }
            }
        }
        Ok(())
    }

    fn expression(&mut self, expression: &ConstExpr<'_>) -> Result<(), PluginError> {
        let range = expression.get_binary_reader().range();
        self.counts.add(VALUES, 1_u32)?;
        let bytes = range.end.saturating_sub(range.start);
        self.counts.add(EXPRESSIONS, bytes)
    }

    /// The header of a section counts a recursion group as one type.
    fn recursive_types(&mut self, group: &RecGroup) -> Result<(), PluginError> {
        for (index, subtype) in group.types().enumerate() {
            if index > 0 {
                self.counts.add(TYPES, 1_u32)?;
            }
            if let CompositeInnerType::Func(function) = &subtype.composite_type.inner {
                let values = function.params().len() + function.results().len();
                self.counts.check(SIGNATURE, values as u64)?;
            }
        }
        Ok(())
    }

    fn function(
        &mut self,
        function: FuncToValidate<ValidatorResources>,
        body: &FunctionBody<'_>,
        allocations: FuncValidatorAllocations,
    ) -> Result<FuncValidatorAllocations, PluginError> {
        let index = Some(function.index);
        self.counts.function = index;
        let mut body_counts = BodyCounts {
            counts: Counts::new(self.counts.size, index),
            file: &mut self.counts,
            validator: function.into_validator(allocations),
        };
        body_counts.check(body)?;
        let allocations = body_counts.validator.into_allocations();
        self.counts.function = None;
        Ok(allocations)
    }
}

/// Counts over one function so far.
struct BodyCounts<'a> {
    counts: Counts,
    file: &'a mut Counts,
    validator: FuncValidator<ValidatorResources>,
}

/// What an operator costs the compiler.
enum Cost {
    Little,
    Call,
    /// Becomes blocks in the compiler, which keeps all live values across them.
    Branch,
    /// Becomes checks and a call of the host or through a table: many blocks and instructions.
    Detour,
    Loop,
}

fn cost(operator: &Operator<'_>) -> Cost {
    match operator {
        Operator::Loop { .. } => Cost::Loop,
        Operator::Call { .. } | Operator::ReturnCall { .. } => Cost::Call,
        Operator::Block { .. }
        | Operator::If { .. }
        | Operator::Else
        | Operator::Br { .. }
        | Operator::BrIf { .. }
        | Operator::BrTable { .. }
        | Operator::BrOnNull { .. }
        | Operator::BrOnNonNull { .. }
        | Operator::TryTable { .. }
        | Operator::I32DivS
        | Operator::I32DivU
        | Operator::I32RemS
        | Operator::I32RemU
        | Operator::I64DivS
        | Operator::I64DivU
        | Operator::I64RemS
        | Operator::I64RemU => Cost::Branch,
        Operator::CallIndirect { .. }
        | Operator::ReturnCallIndirect { .. }
        | Operator::CallRef { .. }
        | Operator::ReturnCallRef { .. }
        | Operator::RefFunc { .. }
        | Operator::TableGet { .. }
        | Operator::TableSet { .. }
        | Operator::TableGrow { .. }
        | Operator::TableFill { .. }
        | Operator::TableCopy { .. }
        | Operator::TableInit { .. }
        | Operator::ElemDrop { .. }
        | Operator::MemoryGrow { .. }
        | Operator::MemoryFill { .. }
        | Operator::MemoryCopy { .. }
        | Operator::MemoryInit { .. }
        | Operator::DataDrop { .. } => Cost::Detour,
        _ => Cost::Little,
    }
}

impl BodyCounts<'_> {
    fn check(&mut self, body: &FunctionBody<'_>) -> Result<(), PluginError> {
        let range = body.range();
        let bytes = range.end.saturating_sub(range.start);
        self.counts.check(BODY, bytes)?;
        for local in body.get_locals_reader().map_err(damaged)? {
            let (count, kind) = local.map_err(damaged)?;
            let locals = u64::from(self.validator.len_locals()) + u64::from(count);
            self.counts.check(LOCALS, locals)?;
            self.validator
                .define_locals(range.start, count, kind)
                .map_err(damaged)?;
        }
        let mut operators = body.get_operators_reader().map_err(damaged)?;
        while !operators.eof() {
            let (operator, offset) = operators.read_with_offset().map_err(damaged)?;
            self.operator(&operator, offset)?;
            self.validator.op(offset, &operator).map_err(damaged)?;
        }
        operators.finish().map_err(damaged)
    }

    fn operator(&mut self, operator: &Operator<'_>, offset: u64) -> Result<(), PluginError> {
        let cost = cost(operator);
        if let Cost::Little = cost {
            return Ok(());
        }
        // An operator without arity is invalid, which the validator reports next.
        let arity = operator.operator_arity(&self.validator.visitor(offset));
        let values = arity.map_or(0, |(pops, pushes)| u64::from(pops) + u64::from(pushes));
        let live = u64::from(self.validator.len_locals())
            + u64::from(self.validator.operand_stack_height());
        if let Operator::Loop { .. } | Operator::Block { .. } | Operator::If { .. } = operator {
            let depth = self.validator.control_stack_height();
            self.counts.check(DEPTH, depth.into())?;
        }
        match cost {
            Cost::Little => {}
            Cost::Call => self.file.add(CALLS, values + 1)?,
            Cost::Branch => self.branch(live)?,
            Cost::Detour => {
                self.file.add(DETOURS, 1_u32)?;
                self.branch(live)?;
            }
            Cost::Loop => {
                self.counts.add(FUNCTION_LOOPS, 1_u32)?;
                self.file.add(LOOPS, 1_u32)?;
                self.branch(live.saturating_mul(3))?;
            }
        }
        match operator {
            Operator::CallIndirect { .. } => self.file.add(CALLS, values + 1),
            Operator::BrTable { targets } => {
                self.file.add(TARGETS, targets.len())?;
                // All live values are passed to each target.
                let values = live.saturating_mul(u64::from(targets.len()) + 1);
                self.file.add(LIVE_VALUES, values)
            }
            Operator::Loop { blockty } | Operator::Block { blockty } | Operator::If { blockty } => {
                let arity = self.validator.visitor(offset).block_type_arity(*blockty);
                let values = arity.map_or(0, |(params, results)| params.saturating_add(results));
                self.counts.add(BLOCK_VALUES, values)
            }
            _ => Ok(()),
        }
    }

    fn branch(&mut self, live: u64) -> Result<(), PluginError> {
        self.counts.add(FUNCTION_BRANCHES, 1_u32)?;
        self.file.add(BRANCHES, 1_u32)?;
        self.file.add(LIVE_VALUES, live)
    }
}

#[cfg(test)]
mod tests;
