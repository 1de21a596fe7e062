//! Where a module's own file is: `name.rs`, or `name/mod.rs` if the folder has more than the module's tests. So a folder that says
//! what happens in it also has its first page.

use std::collections::BTreeSet;

use super::Source;

pub(super) fn check(sources: &[Source]) -> Vec<String> {
    let rust = || sources.iter().filter(|source| source.is_rust()).map(|source| source.path.as_str());
    let files: BTreeSet<&str> = rust().collect();
    let beside: BTreeSet<String> = rust()
        .filter_map(|path| {
            let (folder, name) = path.rsplit_once('/')?;
            (name != "tests.rs" && !folder.ends_with("/tests")).then(|| format!("{folder}.rs"))
        })
        .filter(|module| files.contains(module.as_str()))
        .collect();
    let moved = |path: &String| format!("{path} has a folder: move it to {}/mod.rs", path.trim_end_matches(".rs"));
    beside.iter().map(moved).collect()
}

#[cfg(test)]
mod tests {
    use super::super::{assert_one_violation, file};
    use super::*;

    #[test]
    fn a_module_with_a_folder_is_in_it() {
        let found = check(&[file("src/topic.rs", ""), file("src/topic/error.rs", "")]);
        assert_one_violation(&found, "move it to src/topic/mod.rs");
    }

    #[test]
    fn tests_may_be_in_a_folder_of_a_modules_name() {
        let tests = [file("src/topic.rs", ""), file("src/topic/tests.rs", ""), file("src/topic/tests/names.rs", "")];
        assert_eq!(check(&tests), [""; 0]);
        assert_eq!(check(&[file("src/topic/mod.rs", ""), file("src/topic/error.rs", "")]), [""; 0]);
    }
}
