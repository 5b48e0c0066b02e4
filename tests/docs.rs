//! What of the documentation can be checked without a server: that every message of the sources is in troubleshooting.md and
//! every message there is one of the sources', that every option of the output plugin is in reference.md, and that links
//! lead somewhere. (`t/090_docs.pl` runs the commands.)

use std::fs;
use std::path::{Path, PathBuf};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

fn files(directory: &Path, extension: &str, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).expect("a readable directory") {
        let path = entry.expect("a readable directory").path();
        if path.is_dir() {
            files(&path, extension, found);
        } else if path.extension().is_some_and(|e| e == extension) {
            found.push(path);
        }
    }
}

/// The sources without comments, literals that go over several lines joined.
fn sources() -> String {
    let mut paths = Vec::new();
    files(&root().join("src"), "rs", &mut paths);
    let mut all = String::new();
    for path in paths {
        let text = fs::read_to_string(path).expect("sources are UTF-8");
        for line in text.lines().filter(|line| !line.trim_start().starts_with("//")) {
            let continued = all.ends_with("\\\n");
            if continued {
                all.truncate(all.len() - 2);
            }
            all += if continued { line.trim_start() } else { line };
            all.push('\n');
        }
    }
    all
}

/// The literal that `text` begins with, but for blanks and opening calls of `format!` and the like: unescaped, and with "…" in
/// place of what is filled in.
fn message(text: &str) -> Option<String> {
    let mut rest = text.trim_start();
    for call in ["format_args!(", "format!("] {
        rest = rest.strip_prefix(call).map_or(rest, str::trim_start);
    }
    let mut characters = rest.strip_prefix('"')?.chars();
    let mut message = String::new();
    loop {
        match characters.next()? {
            '"' => return Some(message),
            '\\' => message.push(characters.next()?),
            '{' => {
                characters.find(|&c| c == '}')?;
                message.push('…');
            }
            c => message.push(c),
        }
    }
}

/// The primary messages of the sources: the first argument behind the code of an error, or the text of a log line. Those of
/// internal errors are left out, and those that are put together elsewhere.
fn messages(sources: &str) -> Vec<String> {
    let mut found = Vec::new();
    for start in ["pg_error!(", "Report::new(", "Problem::new("] {
        for (at, _) in sources.match_indices(start) {
            let arguments = &sources[at + start.len()..];
            let Some((code, text)) = arguments.split_once(',') else { continue };
            if !code.contains("INTERNAL_ERROR") {
                found.extend(message(text));
            }
        }
    }
    for start in [" log(format_args!(", ".problem(format!("] {
        found.extend(sources.match_indices(start).filter_map(|(at, _)| message(&sources[at + start.len()..])));
    }
    found.retain(|message| message != "…");
    found
}

/// The messages in the first columns of a page's tables.
fn documented(page: &str) -> Vec<&str> {
    page.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` |").map(|(message, _)| message)).collect()
}

#[test]
fn every_message_is_in_the_page_on_troubleshooting() {
    let (page, sources) = (read("docs/troubleshooting.md"), sources());
    let (documented, messages) = (documented(&page), messages(&sources));
    assert!(messages.len() > 80, "only {} messages found", messages.len());
    let missing: Vec<_> = messages.iter().filter(|m| !documented.contains(&m.as_str())).collect();
    assert!(missing.is_empty(), "not in docs/troubleshooting.md: {missing:#?}");
}

#[test]
fn every_message_on_that_page_is_one_of_the_sources() {
    let (page, sources) = (read("docs/troubleshooting.md"), sources().replace("\\\"", "\""));
    for message in documented(&page) {
        for part in message.split('…').map(str::trim).filter(|part| part.len() > 3) {
            assert!(sources.contains(part), "no message of the sources has \"{part}\": {message}");
        }
    }
}

#[test]
fn every_option_of_the_output_plugin_is_in_the_reference() {
    let (page, options) = (read("docs/reference.md"), read("src/decode/options.rs"));
    let mut names = Vec::new();
    for table in ["const SWITCHES: ", "const TEXTS: "] {
        let (_, table) = options.split_once(table).expect("the table of options");
        let (table, _) = table.split_once("];").expect("its end");
        names.extend(table.split("c\"").skip(1).filter_map(|rest| rest.split('"').next()));
    }
    assert!(names.len() > 10, "only these options found: {names:?}");
    for name in names {
        assert!(page.contains(&format!("`{name}`")), "docs/reference.md does not have the option {name}");
    }
}

/// A heading's anchor, as GitHub makes it.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().to_lowercase();
    kept.chars()
        .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
        .map(|c| if c == ' ' { '-' } else { c })
        .collect()
}

#[test]
fn links_between_pages_lead_somewhere() {
    let mut pages = vec![root().join("README.md")];
    files(&root().join("docs"), "md", &mut pages);
    let mut broken = Vec::new();
    for page in &pages {
        let text = fs::read_to_string(page).expect("pages are UTF-8");
        for (at, _) in text.match_indices("](") {
            let Some((target, _)) = text[at + 2..].split_once(')') else { continue };
            if target.contains("://") || target.contains(char::is_whitespace) {
                continue;
            }
            let (path, wanted) = target.split_once('#').map_or((target, None), |(path, anchor)| (path, Some(anchor)));
            let path = if path.is_empty() { page.clone() } else { page.parent().expect("a directory").join(path) };
            let there = match wanted {
                None => path.exists(),
                Some(wanted) => fs::read_to_string(&path).is_ok_and(|text| {
                    text.lines().any(|l| l.starts_with('#') && anchor(l.trim_start_matches('#')) == wanted)
                }),
            };
            if !there {
                broken.push(format!("{}: {target}", page.strip_prefix(root()).unwrap_or(page).display()));
            }
        }
    }
    assert!(broken.is_empty(), "broken links: {broken:#?}");
}
