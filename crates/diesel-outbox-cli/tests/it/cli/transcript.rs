//! What commands write, compared with a file.

use std::fs;
use std::path::Path;

use diesel_outbox::MessageId;
use regex::Regex;
use similar::TextDiff;

use super::program::Ran;
use super::shop::Shop;

/// If it is set, the files are written, to be reviewed.
const BLESS: &str = "OUTBOX_TEST_BLESS";

/// Commands and their answers. What differs from run to run has placeholders.
pub(super) struct Transcript<'a> {
    shop: &'a Shop,
    format: &'static str,
    names: Vec<(String, &'static str)>,
    text: String,
}

impl<'a> Transcript<'a> {
    pub(super) fn new(shop: &'a Shop, format: &'static str) -> Self {
        Self { shop, format, names: Vec::new(), text: String::new() }
    }

    /// Shows a message id by a name.
    pub(super) fn name(&mut self, message: MessageId, name: &'static str) {
        self.names.push((message.to_string(), name));
    }

    /// Runs a command; what it answers as JSON has to be JSON.
    pub(super) fn run(&mut self, args: &[&str]) -> Ran {
        let with_format = [args, &["--output", self.format]].concat();
        let ran = self.shop.run(&with_format);
        if self.format != "table" && !ran.stdout.is_empty() {
            let parsed = serde_json::from_str::<serde_json::Value>(&ran.stdout);
            parsed.unwrap_or_else(|error| panic!("{args:?}: {error}: {}", ran.stdout));
        }
        self.text.push_str(&format!("$ outbox {}\n{}", args.join(" "), ran.stdout));
        for line in ran.stderr.lines() {
            self.text.push_str(&format!("! {line}\n"));
        }
        if ran.exit != 0 {
            self.text.push_str(&format!("[exit code {}]\n", ran.exit));
        }
        self.text.push('\n');
        ran
    }

    /// Compares everything with the file.
    #[track_caller]
    pub(super) fn compare(&self, name: &str) {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/it/cli/expected/{name}.{}", self.format));
        let found = self.with_placeholders();
        if std::env::var_os(BLESS).is_some() {
            fs::write(&path, &found).expect("write the expected answers");
        }
        let expected = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let diff = TextDiff::from_lines(&expected, &found).unified_diff().header("expected", "found").to_string();
        assert!(diff.is_empty(), "{} differs ({BLESS}=1 writes it anew):\n{diff}", path.display());
    }

    fn with_placeholders(&self) -> String {
        let mut text = self.text.clone();
        for (id, name) in &self.names {
            text = text.replace(id, &format!("<{name}>"));
        }
        let rules = [
            // Where the database is.
            (r#"(?m)^database  +.*$"#, "database  <place>"),
            (r#"(?m)^( *)"database": ".*",$"#, r#"$1"database": "<place>","#),
            (r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", "<uuid>"),
            (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z", "<time>"),
            (r#""(\w+_seconds)": [0-9.e-]+"#, r#""$1": "<seconds>""#),
            (r#""id": \d+"#, r#""id": "<row>""#),
            (r#""row_id": \d+"#, r#""row_id": "<row>""#),
            (r"row \d+ of the history", "row <row> of the history"),
            (r"(?m)^row +\d+$", "row  <row>"),
            (r#"(?m)(^|[ "])(?:\d+(?:days|day|h|m|s|ms|us|ns))+\b"#, "$1<age>"),
        ];
        replace_all(&mut text, &rules);
        let rules = [
            // The width of a column depends on what it holds.
            (r"(?m)([^ \n]) {2,}", "$1  "),
            // The tests' servers need not keep what they commit.
            (r"(?m)^(?:fine|warning)  settings  -  .*$", "<verdict>  settings  -  <text>"),
            (
                r#""verdict": "(?:fine|warning)",(\s+)"check": "settings",\s+"topic": null,\s+"text": ".*""#,
                r#""verdict": "<verdict>",$1"check": "settings",$1"topic": null,$1"text": "<text>""#,
            ),
        ];
        replace_all(&mut text, &rules);
        text
    }
}

fn replace_all(text: &mut String, rules: &[(&str, &str)]) {
    for (pattern, placeholder) in rules {
        *text = Regex::new(pattern).expect("a pattern").replace_all(text, *placeholder).into_owned();
    }
}
