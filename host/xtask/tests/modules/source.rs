//! Reads which modules of a crate depend on which.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::mem;
use std::path::Path;

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Attribute, Item, ItemMod, ItemUse, LitStr, Macro, Meta, UseTree};

/// The path of a module from the crate's root; the root's own is empty.
pub(crate) type ModulePath = Vec<String>;

/// A path as it is written in the code: `super::a::B`.
type WrittenPath = Vec<String>;

/// The modules of a crate, without tests.
pub(crate) struct Crate {
    modules: BTreeMap<ModulePath, Module>,
}

/// A module that depends on another.
pub(crate) struct Dependency<'c> {
    pub(crate) from: &'c ModulePath,
    pub(crate) to: ModulePath,
    /// The path that leads there, as it is written.
    pub(crate) path: String,
}

/// The paths in a module.
#[derive(Default)]
struct Module {
    paths: BTreeSet<WrittenPath>,
    /// The names that `use` imports, with what they stand for.
    imports: BTreeMap<String, WrittenPath>,
    /// The modules that `use` imports by a glob.
    globs: Vec<WrittenPath>,
}

impl Crate {
    /// Reads a folder of sources.
    pub(crate) fn read(sources: &Path) -> Self {
        let mut texts = Vec::new();
        collect(sources, &[], &mut texts);
        let texts = texts.iter().map(|(name, text)| (name.as_str(), &**text));
        Self::of(&texts.collect::<Vec<_>>())
    }

    /// Reads modules from their names and texts.
    pub(crate) fn of(texts: &[(&str, &str)]) -> Self {
        let (mut modules, mut tests) = (BTreeMap::new(), Vec::new());
        for (name, text) in texts {
            let module: ModulePath = name
                .split("::")
                .filter(|part| !part.is_empty())
                .map(str::to_owned)
                .collect();
            let file = syn::parse_file(text).expect("the sources compile");
            let mut reader = Reader {
                module,
                modules: &mut modules,
                tests: &mut tests,
            };
            reader.modules.entry(reader.module.clone()).or_default();
            reader.visit_file(&file);
        }
        modules.retain(|module, _| !tests.iter().any(|test| module.starts_with(test)));
        Self { modules }
    }

    /// Which module depends on which other.
    pub(crate) fn dependencies(&self) -> Vec<Dependency<'_>> {
        let mut dependencies = Vec::new();
        for (from, module) in &self.modules {
            for path in &module.paths {
                if let Some(to) = self.find(from, path, 0).filter(|to| to != from) {
                    let path = path.join("::");
                    dependencies.push(Dependency { from, to, path });
                }
            }
        }
        dependencies
    }

    /// Globs of modules of this crate: the code does not show which names they import.
    pub(crate) fn globs(&self) -> Vec<String> {
        let mut globs = Vec::new();
        for (from, module) in &self.modules {
            for path in &module.globs {
                if self.find(from, path, 0).is_some() {
                    globs.push(format!("{} (use {}::*)", from.join("::"), path.join("::")));
                }
            }
        }
        globs
    }

    /// The module that a path leads to, or the module of the item that it leads to; `None` for other crates and local names.
    fn find(&self, from: &[String], path: &[String], depth: usize) -> Option<ModulePath> {
        /// The longest chain of names that stand for each other.
        const DEEPEST: usize = 32;
        let (first, mut rest) = path.split_first().filter(|_| depth < DEEPEST)?;
        let mut here = match first.as_str() {
            "crate" => ModulePath::new(),
            "self" => from.to_vec(),
            "super" => from.split_last()?.1.to_vec(),
            name => match self.below(from, name) {
                Some(child) => child,
                None => return self.follow(from, name, rest, depth),
            },
        };
        while let Some((name, after)) = rest.split_first() {
            here = match (name.as_str(), self.below(&here, name)) {
                ("super", _) => here.split_last()?.1.to_vec(),
                (_, Some(child)) => child,
                (name, None) => {
                    // An item of this module, unless the module imports it.
                    return Some(self.follow(&here, name, after, depth).unwrap_or(here));
                }
            };
            rest = after;
        }
        Some(here)
    }

    /// Continues with what an imported name stands for.
    fn follow(
        &self,
        module: &[String],
        name: &str,
        rest: &[String],
        depth: usize,
    ) -> Option<ModulePath> {
        let target = self.modules.get(module)?.imports.get(name)?;
        self.find(module, &[target.as_slice(), rest].concat(), depth + 1)
    }

    fn below(&self, module: &[String], name: &str) -> Option<ModulePath> {
        let child = [module, &[name.to_owned()]].concat();
        self.modules.contains_key(&child).then_some(child)
    }
}

/// Collects the files of a folder, each with the name of its module.
fn collect(folder: &Path, module: &[&str], texts: &mut Vec<(String, String)>) {
    for entry in fs::read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("a file").path();
        let name = path.file_stem().and_then(|name| name.to_str());
        let name = name.expect("names are UTF-8").to_owned();
        let is_root = module.is_empty() && ["lib", "main"].contains(&name.as_str());
        let below = [module, &[name.as_str()]].concat();
        if path.is_dir() {
            collect(&path, &below, texts);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).expect("a file of sources");
            let module = if is_root { module } else { &below };
            texts.push((module.join("::"), text));
        }
    }
}

/// Reads the paths in a file: those of its module, and of the modules inside the file.
struct Reader<'r> {
    /// The module that is being read.
    module: ModulePath,
    modules: &'r mut BTreeMap<ModulePath, Module>,
    /// The modules that are compiled only for tests.
    tests: &'r mut Vec<ModulePath>,
}

impl Reader<'_> {
    fn paths(&mut self) -> &mut Module {
        self.modules.entry(self.module.clone()).or_default()
    }

    fn add(&mut self, path: WrittenPath) {
        if path.len() > 1 {
            self.paths().paths.insert(path);
        }
    }

    fn import(&mut self, before: &[String], tree: &UseTree) {
        let with = |name: &syn::Ident| [before, &[name.to_string()]].concat();
        match tree {
            UseTree::Path(path) => self.import(&with(&path.ident), &path.tree),
            UseTree::Group(group) => {
                group
                    .items
                    .iter()
                    .for_each(|tree| self.import(before, tree));
            }
            UseTree::Glob(_) => {
                self.add(before.to_vec());
                self.paths().globs.push(before.to_vec());
            }
            UseTree::Name(name) => self.bind(&name.ident.to_string(), with(&name.ident)),
            UseTree::Rename(renamed) => {
                self.bind(&renamed.rename.to_string(), with(&renamed.ident));
            }
        }
    }

    /// Adds the paths in the arguments of a macro or an attribute, at any depth; `before` is the path in front of a brace.
    fn tokens(&mut self, tokens: TokenStream, before: &[String]) {
        let (mut path, mut colons) = (before.to_vec(), 2);
        for token in tokens {
            match token {
                TokenTree::Ident(word) => {
                    if colons != 2 {
                        self.add(mem::replace(&mut path, before.to_vec()));
                    }
                    path.push(word.to_string());
                    colons = 0;
                    continue;
                }
                TokenTree::Punct(punct) if punct.as_char() == ':' && colons < 2 => {
                    colons += 1;
                    continue;
                }
                TokenTree::Group(group) => {
                    let is_list = group.delimiter() == Delimiter::Brace && colons == 2;
                    let list = if is_list { path.as_slice() } else { &[] };
                    self.tokens(group.stream(), list);
                }
                // `with = "crate::text"`: some attributes turn text into code.
                TokenTree::Literal(literal) => {
                    let path = syn::parse_str::<LitStr>(&literal.to_string());
                    if let Ok(path) = path.and_then(|path| path.parse::<syn::Path>()) {
                        self.visit_path(&path);
                    }
                }
                TokenTree::Punct(_) => {}
            }
            self.add(mem::replace(&mut path, before.to_vec()));
            colons = 2;
        }
        self.add(path);
    }

    fn bind(&mut self, name: &str, mut path: WrittenPath) {
        let mut name = name.to_owned();
        // `use a::b::{self}` imports `b`.
        if path.last().is_some_and(|last| last == "self") {
            path.pop();
            if name == "self" {
                name = path.last().cloned().unwrap_or_default();
            }
        }
        self.add(path.clone());
        self.paths().imports.insert(name, path);
    }
}

impl<'f> Visit<'f> for Reader<'_> {
    fn visit_item(&mut self, item: &'f Item) {
        let attributes = match item {
            Item::Mod(item) => &item.attrs,
            Item::Use(item) => &item.attrs,
            Item::Fn(item) => &item.attrs,
            Item::Impl(item) => &item.attrs,
            Item::Const(item) => &item.attrs,
            Item::Static(item) => &item.attrs,
            Item::Struct(item) => &item.attrs,
            Item::Enum(item) => &item.attrs,
            Item::Type(item) => &item.attrs,
            Item::Trait(item) => &item.attrs,
            Item::Macro(item) => &item.attrs,
            _ => return visit::visit_item(self, item),
        };
        match item {
            Item::Mod(module) if is_of_tests(attributes) => {
                let test = [self.module.as_slice(), &[module.ident.to_string()]].concat();
                self.tests.push(test);
            }
            _ if is_of_tests(attributes) => {}
            _ => visit::visit_item(self, item),
        }
    }

    fn visit_item_mod(&mut self, module: &'f ItemMod) {
        if module.content.is_some() {
            self.module.push(module.ident.to_string());
            // So that it exists even if it has no paths.
            self.paths();
            visit::visit_item_mod(self, module);
            self.module.pop();
        }
    }

    fn visit_item_use(&mut self, item: &'f ItemUse) {
        self.import(&[], &item.tree);
    }

    fn visit_path(&mut self, path: &'f syn::Path) {
        let segments = path.segments.iter();
        self.add(segments.map(|segment| segment.ident.to_string()).collect());
        visit::visit_path(self, path);
    }

    /// The arguments of a macro are not parsed as code, but their paths can be read.
    fn visit_macro(&mut self, call: &'f Macro) {
        self.tokens(call.tokens.clone(), &[]);
        visit::visit_macro(self, call);
    }

    fn visit_attribute(&mut self, attribute: &'f Attribute) {
        if let Meta::List(list) = &attribute.meta {
            self.tokens(list.tokens.clone(), &[]);
        }
        visit::visit_attribute(self, attribute);
    }
}

fn is_of_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let list = attribute.meta.require_list();
        attribute.path().is_ident("cfg") && list.is_ok_and(|list| list.tokens.to_string() == "test")
    })
}
