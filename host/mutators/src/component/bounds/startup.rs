//! Bounds the initialization of globals, tables and memory, which is compiled besides the functions.
//!
//! The compiler makes one function of all initializer expressions that are not constants.

use wasmparser::{ConstExpr, DataKind, ElementItems, ElementKind, Payload, TableInit};

use super::{Bound, add};
use crate::component::ComponentError;
use crate::component::names::damaged;
use crate::limits::PluginSize;

// 23.
const EXPRESSIONS: Bound = Bound::new(64 << 10, "bytes of initializer expressions");
// 59.
const ENTRIES: Bound = Bound::new(100_000, "entries in element segments");
// 64.
const VALUES: Bound = Bound::new(10_000, "values that instantiation initializes");

#[derive(Default)]
pub(super) struct Startup {
    size_of_plugin: PluginSize,
    expressions: u64,
    entries: u64,
    values: u64,
}

impl Startup {
    pub(super) fn of(size: PluginSize) -> Self {
        Self {
            size_of_plugin: size,
            ..Self::default()
        }
    }

    pub(super) fn section(&mut self, payload: &Payload<'_>) -> Result<(), ComponentError> {
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
                add(
                    &mut self.entries,
                    items.count(),
                    ENTRIES.of(self.size_of_plugin),
                )?;
                if is_set {
                    add(
                        &mut self.values,
                        items.count(),
                        VALUES.of(self.size_of_plugin),
                    )?;
                }
            }
            ElementItems::Expressions(_, items) => {
                add(
                    &mut self.entries,
                    items.count(),
                    ENTRIES.of(self.size_of_plugin),
                )?;
                for item in items {
                    self.expression(&item.map_err(damaged)?)?;
                }
            }
        }
        Ok(())
    }

    fn expression(&mut self, expression: &ConstExpr<'_>) -> Result<(), ComponentError> {
        let range = expression.get_binary_reader().range();
        add(&mut self.values, 1_u32, VALUES.of(self.size_of_plugin))?;
        add(
            &mut self.expressions,
            range.end.saturating_sub(range.start),
            EXPRESSIONS.of(self.size_of_plugin),
        )?;
        Ok(())
    }
}
