//! Checks what a file would cost the compiler, before it is compiled.
//!
//! The compiler cannot be interrupted, and its time and memory grow faster than the file: 30,000 nested loops, 1.7 KB as shipped,
//! take 23 s. So each quantity that makes it slow has a bound, several times what the largest standard plugin has.
//! The worst files within the bounds that were found take about five seconds of processor time (60,000 branches, in functions
//! that are at their bound) or about 200 MiB (100,000 calls in one function). Most files at a bound take less than a second.

mod types;

use wasmparser::{
    CanonicalFunction, ComponentCanonicalSectionReader, ComponentInstance, CompositeInnerType,
    ConstExpr, DataKind, ElementItems, ElementKind, FuncToValidate, FuncValidator,
    FuncValidatorAllocations, FunctionBody, Instance, ModuleArity, Operator, Parser, Payload,
    RecGroup, TableInit, ValidPayload, Validator, ValidatorResources, WasmFeatures,
};

use super::{ComponentError, METADATA, damaged};
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

    const fn when_large(self, times: u64) -> Self {
        Self {
            when_large: times,
            ..self
        }
    }

    /// Checks what a plugin of this size has.
    fn check(self, size: PluginSize, found: u64) -> Result<(), TooMuch> {
        let most = match size {
            PluginSize::Standard => self.most,
            PluginSize::Large => self.most.saturating_mul(self.when_large),
        };
        match found {
            found if found <= most => Ok(()),
            _ => Err(TooMuch {
                most,
                what: self.what,
                function: None,
                size,
            }),
        }
    }
}

// 115 KB.
const CODE: Bound = Bound::new(2 << 20, "bytes of code");
// 264.
const FUNCTIONS: Bound = Bound::new(5_000, "functions");
// None; encoded as a component it has five.
const MODULES: Bound = Bound::new(16, "nested modules and components");
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

/// More of something than a plugin may have. The message continues a sentence that begins with the plugin.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "has more than {most} {what}{}; compiling it would take too long{}",
    in_function(.function),
    or_large(*size)
)]
pub struct TooMuch {
    /// The bound.
    pub most: u64,
    /// What it has too much of.
    pub what: &'static str,
    /// The index of the function that exceeds the bound; none if the whole file does.
    pub function: Option<u32>,
    /// The size that its entry in the chain allows.
    pub size: PluginSize,
}

fn in_function(function: &Option<u32>) -> String {
    function.map_or_else(String::new, |index| format!(" in function {index}"))
}

/// Checks a file against all bounds, and stops at the first one that it exceeds.
pub(super) fn check(wasm: &[u8], size: PluginSize) -> Result<(), ComponentError> {
    // The engine itself refuses the features that it does not support.
    let mut validator = Validator::new_with_features(WasmFeatures::all());
    let mut allocations = FuncValidatorAllocations::default();
    let mut file = FileCounts::of(size);
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
#[derive(Default)]
struct FileCounts {
    size: PluginSize,
    code: u64,
    functions: u64,
    modules: u64,
    /// How deeply the current component or module is nested.
    depth: usize,
    types: u64,
    imports: u64,
    exports: u64,
    globals: u64,
    segments: u64,
    expressions: u64,
    entries: u64,
    values: u64,
    component_types: types::Types,
    parts: u64,
    loops: u64,
    branches: u64,
    targets: u64,
    live_values: u64,
    calls: u64,
    detours: u64,
}

fn add(
    found: &mut u64,
    more: impl Into<u64>,
    bound: Bound,
    size: PluginSize,
) -> Result<(), TooMuch> {
    *found = found.saturating_add(more.into());
    bound.check(size, *found)
}

impl FileCounts {
    fn of(size: PluginSize) -> Self {
        Self {
            size,
            component_types: types::Types::of(size),
            ..Self::default()
        }
    }

    /// Counts the items of a section by its header, before the section is read.
    fn section(&mut self, payload: &Payload<'_>, wasm: &[u8]) -> Result<(), ComponentError> {
        self.component_types.section(payload, wasm)?;
        match payload {
            Payload::CodeSectionStart { count, size, .. } => {
                add(&mut self.functions, *count, FUNCTIONS, self.size)?;
                add(&mut self.code, *size, CODE, self.size)?;
            }
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => {
                self.depth += 1;
                if self.depth > NESTING {
                    return Err(ComponentError::Nested);
                }
                add(&mut self.modules, 1_u32, MODULES, self.size)?;
            }
            Payload::End(_) => self.depth = self.depth.saturating_sub(1),
            Payload::TypeSection(section) => {
                add(&mut self.types, section.count(), TYPES, self.size)?;
                for group in section.clone() {
                    self.recursive_types(&group.map_err(damaged)?)?;
                }
            }
            Payload::ImportSection(section) => {
                add(&mut self.imports, section.count(), IMPORTS, self.size)?
            }
            Payload::ComponentImportSection(section) => {
                add(&mut self.imports, section.count(), IMPORTS, self.size)?
            }
            Payload::ExportSection(section) => {
                add(&mut self.exports, section.count(), EXPORTS, self.size)?
            }
            Payload::ComponentExportSection(section) => {
                add(&mut self.exports, section.count(), EXPORTS, self.size)?
            }
            Payload::GlobalSection(section) => {
                add(&mut self.globals, section.count(), GLOBALS, self.size)?
            }
            Payload::DataSection(section) => {
                add(&mut self.segments, section.count(), SEGMENTS, self.size)?
            }
            Payload::ElementSection(section) => {
                add(&mut self.segments, section.count(), SEGMENTS, self.size)?;
            }
            Payload::CustomSection(section) if section.name().starts_with(METADATA) => {
                self.component_types.metadata(section.data())?;
            }
            _ => self.linked(payload)?,
        }
        self.initialized(payload)
    }

    /// Counts the instances, aliases and lifted or lowered functions of a component.
    fn linked(&mut self, payload: &Payload<'_>) -> Result<(), ComponentError> {
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

    fn parts(&mut self, more: impl TryInto<u64>) -> Result<(), TooMuch> {
        let more = more.try_into().unwrap_or(u64::MAX);
        add(&mut self.parts, more, PARTS, self.size)?;
        self.component_types.uses(more)
    }

    /// Between components that lift and lower among themselves the compiler generates adapters, whose size depends on the types.
    fn lifted(&self, section: &ComponentCanonicalSectionReader<'_>) -> Result<(), ComponentError> {
        for function in section.clone() {
            let is_between = matches!(
                function.map_err(damaged)?,
                CanonicalFunction::Lift { .. } | CanonicalFunction::Lower { .. }
            );
            if is_between && self.depth > 0 {
                return Err(ComponentError::Adapter);
            }
        }
        Ok(())
    }

    /// Counts what initializes globals, tables and memory: the compiler makes one function of all expressions that are not constants.
    fn initialized(&mut self, payload: &Payload<'_>) -> Result<(), ComponentError> {
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

    fn entries(&mut self, items: ElementItems<'_>, is_set: bool) -> Result<(), ComponentError> {
        match items {
            ElementItems::Functions(items) => {
                add(&mut self.entries, items.count(), ENTRIES, self.size)?;
                if is_set {
                    add(&mut self.values, items.count(), VALUES, self.size)?;
                }
            }
            ElementItems::Expressions(_, items) => {
                add(&mut self.entries, items.count(), ENTRIES, self.size)?;
                for item in items {
                    self.expression(&item.map_err(damaged)?)?;
                }
            }
        }
        Ok(())
    }

    fn expression(&mut self, expression: &ConstExpr<'_>) -> Result<(), ComponentError> {
        let range = expression.get_binary_reader().range();
        add(&mut self.values, 1_u32, VALUES, self.size)?;
        add(
            &mut self.expressions,
            range.end.saturating_sub(range.start),
            EXPRESSIONS,
            self.size,
        )?;
        Ok(())
    }

    /// The header of a section counts a recursion group as one type.
    fn recursive_types(&mut self, group: &RecGroup) -> Result<(), TooMuch> {
        for (index, subtype) in group.types().enumerate() {
            if index > 0 {
                add(&mut self.types, 1_u32, TYPES, self.size)?;
            }
            if let CompositeInnerType::Func(function) = &subtype.composite_type.inner {
                SIGNATURE.check(
                    self.size,
                    (function.params().len() + function.results().len()) as u64,
                )?;
            }
        }
        Ok(())
    }

    fn function(
        &mut self,
        function: FuncToValidate<ValidatorResources>,
        body: &FunctionBody<'_>,
        allocations: FuncValidatorAllocations,
    ) -> Result<FuncValidatorAllocations, ComponentError> {
        let index = function.index;
        let range = body.range();
        let mut body_so_far = BodyCounts {
            file: self,
            validator: function.into_validator(allocations),
            loops: 0,
            branches: 0,
            block_values: 0,
        };
        let checked = BODY
            .check(body_so_far.file.size, range.end.saturating_sub(range.start))
            .map_err(ComponentError::from)
            .and_then(|()| body_so_far.check(body));
        match checked {
            Ok(()) => Ok(body_so_far.validator.into_allocations()),
            Err(ComponentError::TooMuch(what)) => Err(ComponentError::TooMuch(TooMuch {
                function: Some(index),
                ..what
            })),
            Err(error) => Err(error),
        }
    }
}

/// Counts over one function so far.
struct BodyCounts<'a> {
    file: &'a mut FileCounts,
    validator: FuncValidator<ValidatorResources>,
    loops: u64,
    branches: u64,
    block_values: u64,
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
    fn check(&mut self, body: &FunctionBody<'_>) -> Result<(), ComponentError> {
        for local in body.get_locals_reader().map_err(damaged)? {
            let (count, kind) = local.map_err(damaged)?;
            LOCALS.check(
                self.file.size,
                u64::from(self.validator.len_locals()) + u64::from(count),
            )?;
            self.validator
                .define_locals(body.range().start, count, kind)
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

    fn operator(&mut self, operator: &Operator<'_>, offset: u64) -> Result<(), TooMuch> {
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
            DEPTH.check(
                self.file.size,
                u64::from(self.validator.control_stack_height()),
            )?;
        }
        match cost {
            Cost::Little => {}
            Cost::Call => add(&mut self.file.calls, values + 1, CALLS, self.file.size)?,
            Cost::Branch => self.branch(live)?,
            Cost::Detour => {
                add(&mut self.file.detours, 1_u32, DETOURS, self.file.size)?;
                self.branch(live)?;
            }
            Cost::Loop => {
                add(&mut self.loops, 1_u32, FUNCTION_LOOPS, self.file.size)?;
                add(&mut self.file.loops, 1_u32, LOOPS, self.file.size)?;
                self.branch(live.saturating_mul(3))?;
            }
        }
        match operator {
            Operator::CallIndirect { .. } => {
                add(&mut self.file.calls, values + 1, CALLS, self.file.size)
            }
            Operator::BrTable { targets } => {
                add(
                    &mut self.file.targets,
                    targets.len(),
                    TARGETS,
                    self.file.size,
                )?;
                // All live values are passed to each target.
                let values = live.saturating_mul(u64::from(targets.len()) + 1);
                add(
                    &mut self.file.live_values,
                    values,
                    LIVE_VALUES,
                    self.file.size,
                )
            }
            Operator::Loop { blockty } | Operator::Block { blockty } | Operator::If { blockty } => {
                let arity = self.validator.visitor(offset).block_type_arity(*blockty);
                let values = arity.map_or(0, |(params, results)| params.saturating_add(results));
                add(&mut self.block_values, values, BLOCK_VALUES, self.file.size)
            }
            _ => Ok(()),
        }
    }

    fn branch(&mut self, live: u64) -> Result<(), TooMuch> {
        add(&mut self.branches, 1_u32, FUNCTION_BRANCHES, self.file.size)?;
        add(&mut self.file.branches, 1_u32, BRANCHES, self.file.size)?;
        add(
            &mut self.file.live_values,
            live,
            LIVE_VALUES,
            self.file.size,
        )
    }
}

#[cfg(test)]
mod tests;
