//! Bounds the types of components, in a component itself and in the metadata of a core module.
//!
//! They are within each other, and reading one takes stack for each level: 16 levels in 50 bytes, and some 10,000 end the process.
//! So a section is held against its bounds as bytes before anything of it is read.

use wasmparser::{
    ComponentDefinedType, ComponentType, ComponentTypeDeclaration, CoreType,
    InstanceTypeDeclaration, ModuleTypeDeclaration, Parser, Payload,
};

use super::{Bound, TYPES, add};
use crate::component::ComponentError;
use crate::component::names::damaged;

// 5 KB.
const BYTES: Bound = Bound::new(256 << 10, "bytes of component types and metadata");
// 10.
const NESTED: Bound = Bound::new(500, "component types within each other");
// Some 300.
const PARTS: Bound = Bound::new(
    10_000,
    "fields, cases, parameters and declarations in types",
);

#[derive(Default)]
pub(super) struct Types {
    bytes: u64,
    nested: u64,
    types: u64,
    parts: u64,
}

impl Types {
    pub(super) fn section(
        &mut self,
        payload: &Payload<'_>,
        wasm: &[u8],
    ) -> Result<(), ComponentError> {
        match payload {
            Payload::ComponentTypeSection(section) => {
                add(&mut self.types, section.count(), TYPES)?;
                self.look(bytes(wasm, &section.range()))?;
                for kind in section.clone() {
                    add(&mut self.parts, parts(&kind.map_err(damaged)?), PARTS)?;
                }
            }
            Payload::CoreTypeSection(section) => {
                add(&mut self.types, section.count(), TYPES)?;
                self.look(bytes(wasm, &section.range()))?;
                for kind in section.clone() {
                    add(&mut self.parts, core_parts(&kind.map_err(damaged)?), PARTS)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// The description of a core module's world is a component of its own.
    pub(super) fn metadata(&mut self, component: &[u8]) -> Result<(), ComponentError> {
        add(&mut self.bytes, component.len() as u64, BYTES)?;
        for payload in Parser::new(0).parse_all(component) {
            // What is damaged the encoder finds.
            let Ok(payload) = payload else { break };
            self.section(&payload, component)?;
        }
        Ok(())
    }

    /// A type within a type is a declaration that begins with these two bytes, though they may mean something else too.
    fn look(&mut self, bytes: &[u8]) -> Result<(), ComponentError> {
        add(&mut self.bytes, bytes.len() as u64, BYTES)?;
        let nested = bytes
            .windows(2)
            .filter(|pair| matches!(pair, [1, 0x41 | 0x42]));
        add(&mut self.nested, nested.count() as u64, NESTED)?;
        Ok(())
    }
}

fn bytes<'a>(wasm: &'a [u8], range: &std::ops::Range<u64>) -> &'a [u8] {
    let place = |offset: u64| usize::try_from(offset).unwrap_or(usize::MAX);
    wasm.get(place(range.start)..place(range.end))
        .unwrap_or_default()
}

/// How much a type declares, itself included.
fn parts(kind: &ComponentType<'_>) -> u64 {
    let within = match kind {
        ComponentType::Defined(defined) => match defined {
            ComponentDefinedType::Record(fields) => fields.len() as u64,
            ComponentDefinedType::Variant(cases) => cases.len() as u64,
            ComponentDefinedType::Tuple(types) => types.len() as u64,
            ComponentDefinedType::Flags(names) | ComponentDefinedType::Enum(names) => {
                names.len() as u64
            }
            _ => 0,
        },
        ComponentType::Func(function) => function.params.len() as u64,
        ComponentType::Component(declarations) => declarations.iter().map(of_component).sum(),
        ComponentType::Instance(declarations) => declarations.iter().map(of_instance).sum(),
        ComponentType::Resource { .. } => 0,
    };
    1 + within
}

fn of_component(declaration: &ComponentTypeDeclaration<'_>) -> u64 {
    match declaration {
        ComponentTypeDeclaration::CoreType(kind) => core_parts(kind),
        ComponentTypeDeclaration::Type(kind) => parts(kind),
        _ => 1,
    }
}

fn of_instance(declaration: &InstanceTypeDeclaration<'_>) -> u64 {
    match declaration {
        InstanceTypeDeclaration::CoreType(kind) => core_parts(kind),
        InstanceTypeDeclaration::Type(kind) => parts(kind),
        _ => 1,
    }
}

fn core_parts(kind: &CoreType<'_>) -> u64 {
    match kind {
        CoreType::Rec(group) => group.types().len() as u64,
        CoreType::Module(declarations) => declarations
            .iter()
            .map(|declaration| match declaration {
                ModuleTypeDeclaration::Type(group) => group.types().len() as u64,
                _ => 1,
            })
            .sum(),
    }
}
