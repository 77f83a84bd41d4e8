//! Bounds the types of a component, or of the metadata in a core module, and their uses.
//!
//! Types nest, and parsing takes stack for each level: 50 bytes can have 16 levels, and about 10,000 levels crash the process. So
//! the bytes of a section are checked for nesting before it is parsed.
//!
//! Validation expands types: a type that refers to another one twice is as large as both, in a few bytes. An instance takes memory
//! for all exports of its component, and a lowered function takes time for all cases of its parameters. So types are measured
//! expanded, and whatever may use a type is charged for the largest one.

use wasmparser::{
    ComponentAlias, ComponentDefinedType, ComponentExternalKind, ComponentFuncType,
    ComponentOuterAliasKind, ComponentType, ComponentTypeDeclaration, ComponentTypeRef,
    ComponentValType, CoreType, InstanceTypeDeclaration, ModuleTypeDeclaration, Parser, Payload,
    TypeBounds,
};

use super::{Bound, Counts, TYPES};
use crate::component::damaged;
use crate::error::PluginError;
use crate::limits::PluginSize;

// 4 KB.
const BYTES: Bound = Bound::new(256 << 10, "bytes of component types and metadata");
// 12.
const NESTED: Bound = Bound::new(120, "nested component types");
// 2,100.
const SIZE: Bound = Bound::new(
    20_000,
    "fields, cases, parameters and declarations in types, where a type counts each time it is used",
);
// 20,000 when encoded as a component.
const USES: Bound = Bound {
    // 12 million in CPython: each part counts for the largest type.
    when_large: 80,
    ..Bound::new(
        200_000,
        "parts of types in imports, exports, instances, aliases and lifted or lowered functions",
    )
};

pub(super) struct Types {
    counts: Counts,
    /// The index spaces of the components and types around the current one, from the outermost.
    spaces: Vec<IndexSpace>,
    largest: u64,
}

/// The type index space of a module, a component, or the type of a component or an instance.
#[derive(Default)]
struct IndexSpace {
    /// The sizes of the types, by index.
    types: Vec<u64>,
    /// The size of all imports and exports.
    declared: u64,
}

impl Types {
    pub(super) fn new(size: PluginSize) -> Self {
        Self {
            counts: Counts::new(size, None),
            spaces: Vec::new(),
            largest: 0,
        }
    }

    pub(super) fn section(
        &mut self,
        payload: &Payload<'_>,
        wasm: &[u8],
    ) -> Result<(), PluginError> {
        match payload {
            Payload::Version { .. } => self.spaces.push(IndexSpace::default()),
            Payload::End(_) => {
                self.close();
            }
            Payload::ComponentTypeSection(section) => {
                self.counts.add(TYPES, section.count())?;
                self.check_bytes(bytes(wasm, &section.range()))?;
                for kind in section.clone() {
                    self.define(&kind.map_err(damaged)?)?;
                }
            }
            Payload::CoreTypeSection(section) => {
                self.counts.add(TYPES, section.count())?;
                self.check_bytes(bytes(wasm, &section.range()))?;
                for kind in section.clone() {
                    self.measured(core_size(&kind.map_err(damaged)?))?;
                }
            }
            Payload::ImportSection(section) => self.declare(section.count().into()),
            Payload::ExportSection(section) => self.declare(section.count().into()),
            Payload::ComponentImportSection(section) => {
                for import in section.clone() {
                    self.uses(1)?;
                    self.entity(&import.map_err(damaged)?.ty);
                }
            }
            Payload::ComponentExportSection(section) => {
                for export in section.clone() {
                    self.uses(1)?;
                    let export = export.map_err(damaged)?;
                    self.declare(self.largest);
                    if export.kind == ComponentExternalKind::Type {
                        self.index(self.at(export.index));
                    }
                }
            }
            Payload::ComponentAliasSection(section) => {
                for alias in section.clone() {
                    self.alias(&alias.map_err(damaged)?);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Charges for parts of a component, each of which may use any type.
    pub(super) fn uses(&mut self, parts: u64) -> Result<(), PluginError> {
        self.counts
            .add(USES, parts.saturating_mul(1 + self.largest))
    }

    /// The metadata of a core module is a component, too.
    pub(super) fn metadata(&mut self, component: &[u8]) -> Result<(), PluginError> {
        self.counts.add(BYTES, component.len())?;
        let around = std::mem::take(&mut self.spaces);
        for payload in Parser::new(0).parse_all(component) {
            // The encoder reports damaged metadata.
            let Ok(payload) = payload else { break };
            self.section(&payload, component)?;
        }
        self.spaces = around;
        Ok(())
    }

    /// A nested type is a declaration that begins with these two bytes; the same bytes elsewhere are counted too.
    fn check_bytes(&mut self, bytes: &[u8]) -> Result<(), PluginError> {
        self.counts.add(BYTES, bytes.len())?;
        let nested = bytes
            .windows(2)
            .filter(|pair| matches!(pair, [1, 0x41 | 0x42]));
        self.counts.add(NESTED, nested.count())
    }

    /// Measures a type and gives it the next index.
    fn define(&mut self, kind: &ComponentType<'_>) -> Result<(), PluginError> {
        let size = match kind {
            ComponentType::Defined(defined) => self.defined(defined),
            ComponentType::Func(function) => self.function(function),
            ComponentType::Component(declarations) => self.component(declarations)?,
            ComponentType::Instance(declarations) => self.instance(declarations)?,
            ComponentType::Resource { .. } => 1,
        };
        self.index(size);
        self.measured(size)
    }

    fn measured(&mut self, size: u64) -> Result<(), PluginError> {
        self.largest = self.largest.max(size);
        self.counts.add(SIZE, size)
    }

    fn defined(&self, defined: &ComponentDefinedType<'_>) -> u64 {
        let value = |kind: &ComponentValType| self.value(*kind);
        let values = |kinds: [&Option<ComponentValType>; 2]| -> u64 {
            kinds.into_iter().flatten().map(value).sum()
        };
        let within = match defined {
            ComponentDefinedType::Record(fields) => {
                fields.iter().map(|(_, kind)| value(kind)).sum()
            }
            ComponentDefinedType::Variant(cases) => {
                let cases = cases.iter().map(|case| 1 + values([&case.ty, &None]));
                cases.sum()
            }
            ComponentDefinedType::Tuple(kinds) => kinds.iter().map(value).sum(),
            ComponentDefinedType::Flags(names) | ComponentDefinedType::Enum(names) => {
                names.len() as u64
            }
            ComponentDefinedType::List(kind)
            | ComponentDefinedType::FixedLengthList(kind, _)
            | ComponentDefinedType::Option(kind) => value(kind),
            ComponentDefinedType::Map(key, kind) => value(key) + value(kind),
            ComponentDefinedType::Result { ok, err } => values([ok, err]),
            ComponentDefinedType::Future(kind) | ComponentDefinedType::Stream(kind) => {
                values([kind, &None])
            }
            ComponentDefinedType::Primitive(_)
            | ComponentDefinedType::Own(_)
            | ComponentDefinedType::Borrow(_) => 0,
        };
        1 + within
    }

    fn function(&self, function: &ComponentFuncType<'_>) -> u64 {
        let params = function.params.iter().map(|(_, kind)| kind);
        let values = params.chain(&function.result);
        1 + values.map(|kind| self.value(*kind)).sum::<u64>()
    }

    fn component(
        &mut self,
        declarations: &[ComponentTypeDeclaration<'_>],
    ) -> Result<u64, PluginError> {
        self.spaces.push(IndexSpace::default());
        for declaration in declarations {
            match declaration {
                ComponentTypeDeclaration::CoreType(kind) => self.measured(core_size(kind))?,
                ComponentTypeDeclaration::Type(kind) => self.define(kind)?,
                ComponentTypeDeclaration::Alias(alias) => self.alias(alias),
                ComponentTypeDeclaration::Export { ty, .. } => self.entity(ty),
                ComponentTypeDeclaration::Import(import) => self.entity(&import.ty),
            }
            self.declare(1);
        }
        Ok(self.close())
    }

    fn instance(
        &mut self,
        declarations: &[InstanceTypeDeclaration<'_>],
    ) -> Result<u64, PluginError> {
        self.spaces.push(IndexSpace::default());
        for declaration in declarations {
            match declaration {
                InstanceTypeDeclaration::CoreType(kind) => self.measured(core_size(kind))?,
                InstanceTypeDeclaration::Type(kind) => self.define(kind)?,
                InstanceTypeDeclaration::Alias(alias) => self.alias(alias),
                InstanceTypeDeclaration::Export { ty, .. } => self.entity(ty),
            }
            self.declare(1);
        }
        Ok(self.close())
    }

    /// An import, or a declaration of an import or export. A type gets the next index.
    fn entity(&mut self, kind: &ComponentTypeRef) {
        let size = match kind {
            ComponentTypeRef::Func(index)
            | ComponentTypeRef::Instance(index)
            | ComponentTypeRef::Component(index)
            | ComponentTypeRef::Type(TypeBounds::Eq(index)) => self.at(*index),
            ComponentTypeRef::Value(kind) => self.value(*kind),
            ComponentTypeRef::Type(TypeBounds::SubResource) => 1,
            ComponentTypeRef::Module(_) => self.largest,
        };
        self.declare(size);
        if let ComponentTypeRef::Type(_) = kind {
            self.index(size);
        }
    }

    fn alias(&mut self, alias: &ComponentAlias<'_>) {
        match alias {
            ComponentAlias::Outer {
                kind: ComponentOuterAliasKind::Type,
                count,
                index,
            } => {
                let outward = self.spaces.iter().rev().nth(*count as usize);
                let size = outward.and_then(|space| space.types.get(*index as usize).copied());
                self.index(size.unwrap_or(self.largest));
            }
            // The exported type is not looked up, so it counts as the largest.
            ComponentAlias::InstanceExport {
                kind: ComponentExternalKind::Type,
                ..
            } => self.index(self.largest),
            _ => {}
        }
    }

    fn value(&self, kind: ComponentValType) -> u64 {
        match kind {
            ComponentValType::Primitive(_) => 1,
            ComponentValType::Type(index) => self.at(index),
        }
    }

    /// The size of the type with this index. The validator refuses an index without a type.
    fn at(&self, index: u32) -> u64 {
        let space = self.spaces.last();
        let size = space.and_then(|space| space.types.get(index as usize).copied());
        size.unwrap_or(self.largest)
    }

    fn index(&mut self, size: u64) {
        if let Some(space) = self.spaces.last_mut() {
            space.types.push(size);
        }
    }

    fn declare(&mut self, size: u64) {
        if let Some(space) = self.spaces.last_mut() {
            space.declared = space.declared.saturating_add(size);
        }
    }

    /// Ends a module, a component or a type. It can be instantiated from here on.
    fn close(&mut self) -> u64 {
        let size = 1 + self.spaces.pop().map_or(0, |space| space.declared);
        self.largest = self.largest.max(size);
        size
    }
}

fn bytes<'a>(wasm: &'a [u8], range: &std::ops::Range<u64>) -> &'a [u8] {
    let place = |offset: u64| usize::try_from(offset).unwrap_or(usize::MAX);
    wasm.get(place(range.start)..place(range.end))
        .unwrap_or_default()
}

fn core_size(kind: &CoreType<'_>) -> u64 {
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
