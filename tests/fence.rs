//! Every function that PostgreSQL calls is behind the panic fence: they are all made by the macros `pg_callback!` and
//! `pg_function!`, and nothing else in the sources defines one.

use std::fs;
use std::path::{Path, PathBuf};

/// Where the macros are, and the two trampolines of the guard, which fence what they run.
const DEFINE_THE_FENCE: [&str; 3] = ["src/pg/error.rs", "src/pg/fmgr.rs", "src/pg/guard.rs"];

fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).expect("src is readable") {
        let path = entry.expect("src is readable").path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn no_entry_point_is_outside_the_fence() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    sources(&root.join("src"), &mut files);
    assert!(files.len() > 30, "only {} source files found", files.len());
    let mut outside = Vec::new();
    for file in files {
        let name = file.strip_prefix(root).expect("below the root").display().to_string();
        if DEFINE_THE_FENCE.contains(&name.as_str()) {
            continue;
        }
        for (i, line) in fs::read_to_string(&file).expect("sources are UTF-8").lines().enumerate() {
            if !line.trim_start().starts_with("//") && line.contains("extern \"C") && line.contains("fn ") {
                outside.push(format!("{name}:{}: {}", i + 1, line.trim()));
            }
        }
    }
    assert!(outside.is_empty(), "use pg_callback! or pg_function!:\n{}", outside.join("\n"));
}
