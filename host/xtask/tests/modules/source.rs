//! What the modules of a crate name.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::mem;
use std::path::Path;

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Attribute, Item, ItemMod, ItemUse, LitStr, Macro, Meta, UseTree};

/// Where a module or an item is, from the crate's root.
pub(crate) type Place = Vec<String>;

/// The modules of a crate, without tests.
pub(crate) struct Crate {
    modules: BTreeMap<Place, Module>,
}

/// What a module names.
#[derive(Default)]
struct Module {
    /// Paths as they are written.
    paths: BTreeSet<Place>,
    /// What names that `use` brought in stand for.
    imports: BTreeMap<String, Place>,
    /// What is brought in whole.
    globs: Vec<Place>,
}

impl Crate {
    /// Reads a folder of sources.
    pub(crate) fn read(sources: &Path) -> Self {
        let mut texts = Vec::new();
        collect(sources, &[], &mut texts);
        let texts = texts.iter().map(|(place, text)| (place.as_str(), &**text));
        Self::of(&texts.collect::<Vec<_>>())
    }

    /// Of modules with their texts.
    pub(crate) fn of(texts: &[(&str, &str)]) -> Self {
        let (mut modules, mut tests) = (BTreeMap::new(), Vec::new());
        for (name, text) in texts {
            let place: Place = name
                .split("::")
                .filter(|part| !part.is_empty())
                .map(str::to_owned)
                .collect();
            let file = syn::parse_file(text).expect("the sources compile");
            let mut reader = Reader {
                place,
                modules: &mut modules,
                tests: &mut tests,
            };
            reader.modules.entry(reader.place.clone()).or_default();
            reader.visit_file(&file);
        }
        modules.retain(|place, _| !tests.iter().any(|test| place.starts_with(test)));
        Self { modules }
    }

    /// Which module names which other, and how.
    pub(crate) fn names(&self) -> Vec<(&Place, Place, String)> {
        let mut names = Vec::new();
        for (place, module) in &self.modules {
            for path in &module.paths {
                if let Some(named) = self.find(place, path, 0).filter(|named| named != place) {
                    names.push((place, named, path.join("::")));
                }
            }
        }
        names
    }

    /// Modules of this crate that are brought in whole: nobody can tell which names are theirs.
    pub(crate) fn globs(&self) -> Vec<String> {
        let mut globs = Vec::new();
        for (place, module) in &self.modules {
            for path in &module.globs {
                if self.find(place, path, 0).is_some() {
                    globs.push(format!("{} (use {}::*)", place.join("::"), path.join("::")));
                }
            }
        }
        globs
    }

    /// The module where a path leads, or in which the item is that it leads to; none if that is another crate's, or a local name.
    fn find(&self, from: &[String], path: &[String], depth: usize) -> Option<Place> {
        /// Names that stand for each other.
        const DEEPEST: usize = 32;
        let (first, mut rest) = path.split_first().filter(|_| depth < DEEPEST)?;
        let mut here = match first.as_str() {
            "crate" => Place::new(),
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
                    // An item of this module, unless it has it from elsewhere.
                    return Some(self.follow(&here, name, after, depth).unwrap_or(here));
                }
            };
            rest = after;
        }
        Some(here)
    }

    /// Goes on with what an imported name stands for.
    fn follow(&self, at: &[String], name: &str, rest: &[String], depth: usize) -> Option<Place> {
        let target = self.modules.get(at)?.imports.get(name)?;
        self.find(at, &[target.as_slice(), rest].concat(), depth + 1)
    }

    fn below(&self, place: &[String], name: &str) -> Option<Place> {
        let child = [place, &[name.to_owned()]].concat();
        self.modules.contains_key(&child).then_some(child)
    }
}

/// The files of a folder, each with the module that it is.
fn collect(folder: &Path, place: &[&str], texts: &mut Vec<(String, String)>) {
    for entry in fs::read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("a file").path();
        let name = path.file_stem().and_then(|name| name.to_str());
        let name = name.expect("names are UTF-8").to_owned();
        let is_root = place.is_empty() && ["lib", "main"].contains(&name.as_str());
        let below = [place, &[name.as_str()]].concat();
        if path.is_dir() {
            collect(&path, &below, texts);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).expect("a file of sources");
            let place = if is_root { place } else { &below };
            texts.push((place.join("::"), text));
        }
    }
}

/// Reads what a module names, and the modules that stand in its own file.
struct Reader<'r> {
    place: Place,
    modules: &'r mut BTreeMap<Place, Module>,
    tests: &'r mut Vec<Place>,
}

impl Reader<'_> {
    fn module(&mut self) -> &mut Module {
        self.modules.entry(self.place.clone()).or_default()
    }

    fn name(&mut self, path: Place) {
        if path.len() > 1 {
            self.module().paths.insert(path);
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
                self.name(before.to_vec());
                self.module().globs.push(before.to_vec());
            }
            UseTree::Name(name) => self.bind(&name.ident.to_string(), with(&name.ident)),
            UseTree::Rename(renamed) => {
                self.bind(&renamed.rename.to_string(), with(&renamed.ident));
            }
        }
    }

    /// The paths in what a macro or an attribute is given, at any depth; `before` is what stands in front of a brace.
    fn words(&mut self, tokens: TokenStream, before: &[String]) {
        let (mut path, mut colons) = (before.to_vec(), 2);
        for token in tokens {
            match token {
                TokenTree::Ident(word) => {
                    if colons != 2 {
                        self.name(mem::replace(&mut path, before.to_vec()));
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
                    self.words(group.stream(), list);
                }
                // `with = "crate::text"`: what an attribute makes code of.
                TokenTree::Literal(literal) => {
                    let path = syn::parse_str::<LitStr>(&literal.to_string());
                    if let Ok(path) = path.and_then(|path| path.parse::<syn::Path>()) {
                        self.visit_path(&path);
                    }
                }
                TokenTree::Punct(_) => {}
            }
            self.name(mem::replace(&mut path, before.to_vec()));
            colons = 2;
        }
        self.name(path);
    }

    fn bind(&mut self, name: &str, mut path: Place) {
        let mut name = name.to_owned();
        // `use a::b::{self}` brings in `b`.
        if path.last().is_some_and(|last| last == "self") {
            path.pop();
            if name == "self" {
                name = path.last().cloned().unwrap_or_default();
            }
        }
        self.name(path.clone());
        self.module().imports.insert(name, path);
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
                let test = [self.place.as_slice(), &[module.ident.to_string()]].concat();
                self.tests.push(test);
            }
            _ if is_of_tests(attributes) => {}
            _ => visit::visit_item(self, item),
        }
    }

    fn visit_item_mod(&mut self, module: &'f ItemMod) {
        if module.content.is_some() {
            self.place.push(module.ident.to_string());
            self.module();
            visit::visit_item_mod(self, module);
            self.place.pop();
        }
    }

    fn visit_item_use(&mut self, item: &'f ItemUse) {
        self.import(&[], &item.tree);
    }

    fn visit_path(&mut self, path: &'f syn::Path) {
        let words = path.segments.iter();
        self.name(words.map(|segment| segment.ident.to_string()).collect());
        visit::visit_path(self, path);
    }

    /// What a macro is given is not yet code, but its paths can be told.
    fn visit_macro(&mut self, call: &'f Macro) {
        self.words(call.tokens.clone(), &[]);
        visit::visit_macro(self, call);
    }

    fn visit_attribute(&mut self, attribute: &'f Attribute) {
        if let Meta::List(list) = &attribute.meta {
            self.words(list.tokens.clone(), &[]);
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
