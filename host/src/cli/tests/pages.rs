//! The commands of one program that the pages and workflows of the repository show.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::error::{Error, ErrorKind};

/// A command as it is shown.
struct Shown {
    place: String,
    words: Vec<String>,
    /// In a sentence, where a command may be named without all that it needs.
    in_prose: bool,
}

/// Fails with all commands that the program's parser does not understand, or if there are fewer than `least`.
#[track_caller]
pub(crate) fn check(program: &str, least: usize, parse: impl Fn(&[String]) -> Option<Error>) {
    let shown = shown(program);
    assert!(shown.len() >= least, "only {} found", shown.len());
    let mut wrong = Vec::new();
    for Shown {
        place,
        words,
        in_prose,
    } in shown
    {
        let Some(error) = parse(&words) else { continue };
        let is_fine = match error.kind() {
            ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => true,
            ErrorKind::MissingRequiredArgument
            | ErrorKind::MissingSubcommand
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => in_prose,
            // A word such as NAME stands for a value, and a file of the reader's is not here.
            ErrorKind::ValueValidation => {
                in_prose && words.iter().any(|word| word.contains("NAME"))
                    || error.to_string().contains("No such file")
            }
            // An option that is named without its value.
            ErrorKind::InvalidValue => {
                in_prose && error.to_string().contains("a value is required")
            }
            _ => false,
        };
        if !is_fine {
            wrong.push(format!("{place}: {}\n{error}", words.join(" ")));
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// Every command of a program, of one word or more, in all pages and workflows. The first word is the whole program.
fn shown(program: &str) -> Vec<Shown> {
    let mut found = Vec::new();
    for file in files() {
        let text = fs::read_to_string(root().join(&file)).expect("the file is there");
        let lines = match file.ends_with(".md") {
            true => of_page(&text),
            false => of_workflow(&text),
        };
        for (number, line, in_prose) in lines {
            let commands = split(&line).into_iter();
            let of_program = commands.filter_map(|words| without_program(program, words));
            found.extend(of_program.map(|words| Shown {
                place: format!("{file}:{number}"),
                words,
                in_prose,
            }));
        }
    }
    found
}

fn root() -> PathBuf {
    let crate_ = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut above = crate_.ancestors();
    let root = above.find(|it| it.join("Cargo.lock").is_file());
    root.expect("the crate is in a workspace").to_owned()
}

fn files() -> Vec<String> {
    let patterns = ["*.md", ".github/workflows/*"];
    let output = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .args(patterns)
        .current_dir(root())
        .output()
        .expect("git starts");
    let names = String::from_utf8(output.stdout).expect("names are UTF-8");
    let names = names.lines().filter(|name| root().join(name).is_file());
    names.map(str::to_owned).collect()
}

/// Lines of shell in blocks, and code in sentences, each with its line number and whether it is in a sentence.
fn of_page(page: &str) -> Vec<(usize, String, bool)> {
    let mut found = Vec::new();
    let mut block: Option<&str> = None;
    let mut lines = (1..).zip(page.lines());
    while let Some((number, line)) = lines.next() {
        if let Some(kind) = line.trim_start().strip_prefix("```") {
            block = block.is_none().then_some(kind);
            continue;
        }
        match block {
            Some("sh") => {
                let mut whole = line.trim().to_owned();
                while let Some(start) = whole.strip_suffix('\\') {
                    let next = lines.next().map(|(_, line)| line.trim());
                    whole = format!("{start}{}", next.unwrap_or_default());
                }
                found.push((number, whole, false));
            }
            Some("console") => {
                let command = line.trim_start().strip_prefix("$ ");
                found.extend(command.map(|command| (number, command.to_owned(), false)));
            }
            Some(_) => {}
            None => {
                let code = line.split('`').skip(1).step_by(2);
                found.extend(code.map(|code| (number, code.to_owned(), true)));
            }
        }
    }
    found
}

fn of_workflow(text: &str) -> Vec<(usize, String, bool)> {
    let lines = (1..).zip(text.lines());
    let lines = lines.map(|(number, line)| {
        let line = line.trim_start().trim_start_matches("- ");
        let line = line.strip_prefix("run: ").unwrap_or(line);
        (number, line.to_owned(), false)
    });
    lines.collect()
}

/// The commands of a line, and their words, as a shell splits them.
fn split(line: &str) -> Vec<Vec<String>> {
    let mut commands = vec![Vec::new()];
    let mut word = String::new();
    let (mut quote, mut depth) = (None, 0);
    for letter in line.chars() {
        let is_plain = quote.is_none() && depth == 0;
        match letter {
            '"' | '\'' if depth == 0 && quote.is_none_or(|open| open == letter) => {
                quote = quote.is_none().then_some(letter);
            }
            '(' if word.ends_with('$') || depth > 0 => depth += 1,
            ')' if depth > 0 => depth -= 1,
            '#' if is_plain && word.is_empty() => break,
            '|' | ';' | '(' | ')' if is_plain => {
                end(&mut word, &mut commands);
                commands.push(Vec::new());
            }
            '&' if is_plain && !word.ends_with('>') => {
                end(&mut word, &mut commands);
                commands.push(Vec::new());
            }
            ' ' if is_plain => end(&mut word, &mut commands),
            _ => word.push(letter),
        }
    }
    end(&mut word, &mut commands);
    commands
}

fn end(word: &mut String, commands: &mut [Vec<String>]) {
    if let Some(command) = commands.last_mut().filter(|_| !word.is_empty()) {
        command.push(std::mem::take(word));
    }
}

/// The words of a command of this program, the program as one word; without variables before it and without redirections.
fn without_program(program: &str, words: Vec<String>) -> Option<Vec<String>> {
    let is_variable = |word: &String| {
        let name = word.split_once('=').map_or("", |(name, _)| name);
        !name.is_empty() && name.bytes().all(|it| it.is_ascii_uppercase() || it == b'_')
    };
    let words: Vec<String> = words.into_iter().skip_while(is_variable).collect();
    let named: Vec<&str> = program.split(' ').collect();
    let (first, rest) = words.split_at_checked(named.len())?;
    if first != named || rest.is_empty() {
        return None;
    }
    let mut kept = vec![program.to_owned()];
    let mut rest = rest.iter();
    while let Some(word) = rest.next() {
        let redirection = word.trim_start_matches(|letter: char| letter.is_ascii_digit());
        if !redirection.starts_with(['<', '>']) {
            kept.push(word.clone());
        } else if redirection.trim_start_matches(['<', '>']).is_empty() {
            rest.next();
        }
    }
    Some(kept)
}

#[test]
fn a_line_is_split_as_a_shell_splits_it() {
    for (line, expected) in [
        ("podloom drift -A", vec![vec!["podloom", "drift", "-A"]]),
        (
            "A_B=1 podloom crds | kubectl apply -f - # both",
            vec![vec!["podloom", "crds"]],
        ),
        (
            "cd team && podloom run -p 'a b' 2> log >/dev/null &",
            vec![vec!["podloom", "run", "-p", "a b"]],
        ),
        (
            r#"(podloom blame "pod/$(kubectl get pod)" 2>&1; true)"#,
            vec![vec!["podloom", "blame", "pod/$kubectl get pod"]],
        ),
        ("echo podloom", vec![]),
    ] {
        let commands = split(line).into_iter();
        let found: Vec<_> = commands
            .filter_map(|words| without_program("podloom", words))
            .collect();
        assert_eq!(found, expected, "{line}");
    }
}
