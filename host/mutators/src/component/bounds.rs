//! Checks what a file would cost the compiler, before it is compiled.
//!
//! The compiler cannot be interrupted, and its time and memory grow faster than the file: 30,000 nested loops, 1.7 KB as shipped,
//! take 23 s. So each quantity that makes it slow has a bound in `most`, several times what the largest standard plugin has.
//! The worst files within the bounds that were found take about five seconds of processor time (60,000 branches, in functions
//! that are at their bound) or about 200 MiB (100,000 calls in one function). Most files at a bound take less than a second.

mod most;
mod startup;
mod types;

use wasmparser::{
    CanonicalFunction, ComponentCanonicalSectionReader, ComponentInstance, CompositeInnerType,
    FuncToValidate, FuncValidator, FuncValidatorAllocations, FunctionBody, Instance, ModuleArity,
    Operator, Parser, Payload, RecGroup, ValidPayload, Validator, ValidatorResources, WasmFeatures,
};

use self::most::{
    BLOCK_VALUES, BODY, BRANCHES, Bound, CALLS, CODE, DEPTH, DETOURS, EXPORTS, FUNCTION_BRANCHES,
    FUNCTION_LOOPS, FUNCTIONS, GLOBALS, IMPORTS, LIVE_VALUES, LOCALS, LOOPS, MODULES, NESTING,
    PARTS, SEGMENTS, SIGNATURE, TARGETS, TYPES,
};
use super::ComponentError;
use super::names::{METADATA, damaged};
use crate::limits::PluginSize;

pub use self::most::TooMuch;

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
    startup: startup::Startup,
    component_types: types::Types,
    parts: u64,
    loops: u64,
    branches: u64,
    targets: u64,
    live_values: u64,
    calls: u64,
    detours: u64,
}

fn add(found: &mut u64, more: impl Into<u64>, bound: Bound) -> Result<(), TooMuch> {
    *found = found.saturating_add(more.into());
    bound.check(*found)
}

impl FileCounts {
    fn of(size: PluginSize) -> Self {
        Self {
            size,
            startup: startup::Startup::of(size),
            component_types: types::Types::of(size),
            ..Self::default()
        }
    }

    /// Counts the items of a section by its header, before the section is read.
    fn section(&mut self, payload: &Payload<'_>, wasm: &[u8]) -> Result<(), ComponentError> {
        self.component_types.section(payload, wasm)?;
        match payload {
            Payload::CodeSectionStart { count, size, .. } => {
                add(&mut self.functions, *count, FUNCTIONS.of(self.size))?;
                add(&mut self.code, *size, CODE.of(self.size))?;
            }
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => {
                self.depth += 1;
                if self.depth > NESTING {
                    return Err(ComponentError::Nested);
                }
                add(&mut self.modules, 1_u32, MODULES.of(self.size))?;
            }
            Payload::End(_) => self.depth = self.depth.saturating_sub(1),
            Payload::TypeSection(section) => {
                add(&mut self.types, section.count(), TYPES.of(self.size))?;
                for group in section.clone() {
                    self.recursive_types(&group.map_err(damaged)?)?;
                }
            }
            Payload::ImportSection(section) => {
                add(&mut self.imports, section.count(), IMPORTS.of(self.size))?
            }
            Payload::ComponentImportSection(section) => {
                add(&mut self.imports, section.count(), IMPORTS.of(self.size))?
            }
            Payload::ExportSection(section) => {
                add(&mut self.exports, section.count(), EXPORTS.of(self.size))?
            }
            Payload::ComponentExportSection(section) => {
                add(&mut self.exports, section.count(), EXPORTS.of(self.size))?
            }
            Payload::GlobalSection(section) => {
                add(&mut self.globals, section.count(), GLOBALS.of(self.size))?
            }
            Payload::DataSection(section) => {
                add(&mut self.segments, section.count(), SEGMENTS.of(self.size))?
            }
            Payload::ElementSection(section) => {
                add(&mut self.segments, section.count(), SEGMENTS.of(self.size))?;
            }
            Payload::CustomSection(section) if section.name().starts_with(METADATA) => {
                self.component_types.metadata(section.data())?;
            }
            _ => self.linked(payload)?,
        }
        self.startup.section(payload)
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
        add(&mut self.parts, more, PARTS.of(self.size))?;
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

    /// The header of a section counts a recursion group as one type.
    fn recursive_types(&mut self, group: &RecGroup) -> Result<(), TooMuch> {
        for (index, subtype) in group.types().enumerate() {
            if index > 0 {
                add(&mut self.types, 1_u32, TYPES.of(self.size))?;
            }
            if let CompositeInnerType::Func(function) = &subtype.composite_type.inner {
                SIGNATURE
                    .of(self.size)
                    .check((function.params().len() + function.results().len()) as u64)?;
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
            .of(body_so_far.file.size)
            .check(range.end.saturating_sub(range.start))
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
            LOCALS
                .of(self.file.size)
                .check(u64::from(self.validator.len_locals()) + u64::from(count))?;
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
            DEPTH
                .of(self.file.size)
                .check(u64::from(self.validator.control_stack_height()))?;
        }
        match cost {
            Cost::Little => {}
            Cost::Call => add(&mut self.file.calls, values + 1, CALLS.of(self.file.size))?,
            Cost::Branch => self.branch(live)?,
            Cost::Detour => {
                add(&mut self.file.detours, 1_u32, DETOURS.of(self.file.size))?;
                self.branch(live)?;
            }
            Cost::Loop => {
                add(&mut self.loops, 1_u32, FUNCTION_LOOPS.of(self.file.size))?;
                add(&mut self.file.loops, 1_u32, LOOPS.of(self.file.size))?;
                self.branch(live.saturating_mul(3))?;
            }
        }
        match operator {
            Operator::CallIndirect { .. } => {
                add(&mut self.file.calls, values + 1, CALLS.of(self.file.size))
            }
            Operator::BrTable { targets } => {
                add(
                    &mut self.file.targets,
                    targets.len(),
                    TARGETS.of(self.file.size),
                )?;
                // All live values are passed to each target.
                let values = live.saturating_mul(u64::from(targets.len()) + 1);
                add(
                    &mut self.file.live_values,
                    values,
                    LIVE_VALUES.of(self.file.size),
                )
            }
            Operator::Loop { blockty } | Operator::Block { blockty } | Operator::If { blockty } => {
                let arity = self.validator.visitor(offset).block_type_arity(*blockty);
                let values = arity.map_or(0, |(params, results)| params.saturating_add(results));
                add(
                    &mut self.block_values,
                    values,
                    BLOCK_VALUES.of(self.file.size),
                )
            }
            _ => Ok(()),
        }
    }

    fn branch(&mut self, live: u64) -> Result<(), TooMuch> {
        add(
            &mut self.branches,
            1_u32,
            FUNCTION_BRANCHES.of(self.file.size),
        )?;
        add(&mut self.file.branches, 1_u32, BRANCHES.of(self.file.size))?;
        add(
            &mut self.file.live_values,
            live,
            LIVE_VALUES.of(self.file.size),
        )
    }
}

#[cfg(test)]
mod tests;
