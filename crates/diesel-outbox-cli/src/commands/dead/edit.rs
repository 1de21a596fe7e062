use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;
use diesel_outbox::MessageId;
use serde::Serialize;
use similar::TextDiff;

use super::edited::{Bytes, Edited};
use crate::arguments::Header;
use crate::confirm::confirm;
use crate::error::Error;
use crate::exit::Exit;
use crate::output::{Document, Page, note};
use crate::session::Session;

/// Which dead letter is replaced, and by what. Without a change given here, an editor opens: `VISUAL`, or `EDITOR`, or vi.
#[derive(Debug, Clone, Args)]
pub(crate) struct EditArgs {
    /// The message id
    id: MessageId,
    /// Take the whole message from this file, in the form that the editor shows; - is standard input
    #[arg(long, value_name = "PATH", conflicts_with_all = ["payload_file", "topic", "key", "kind", "header"])]
    file: Option<PathBuf>,
    /// Take the payload from this file, as bytes
    #[arg(long, value_name = "PATH")]
    payload_file: Option<PathBuf>,
    /// Send it to another topic
    #[arg(long)]
    topic: Option<String>,
    /// Give it another key
    #[arg(long)]
    key: Option<String>,
    /// Give it another kind
    #[arg(long)]
    kind: Option<String>,
    /// Set a header; may be given several times
    #[arg(long, value_name = "NAME=VALUE")]
    header: Vec<Header>,
}

/// What the edit has done, or would do.
#[derive(Debug, Serialize)]
struct Edit {
    action: &'static str,
    dry_run: bool,
    message_id: MessageId,
    /// The id of the message that replaces it.
    replaced_by: Option<MessageId>,
    diff: String,
}

impl Document for Edit {
    fn show(&self, page: &mut Page) {
        match self.replaced_by {
            Some(new) => page.line(&format!("{} is replaced by {new}", self.message_id)),
            None => page.line(&format!("{} would be replaced", self.message_id)),
        }
    }
}

impl EditArgs {
    pub(super) async fn run(&self, session: &Session) -> Result<Exit, Error> {
        let letter = session.admin.dead_letter(self.id).await?;
        if let Err(error) = letter.headers() {
            note(&format!("its headers are left out, because they cannot be read: {error}"));
        }
        let before = Edited::of(&letter);
        let after = self.edited(&before)?;
        if after == before {
            return Err(Error::failed("nothing was changed: `dead redrive` sends a dead letter again as it is"));
        }
        let diff = diff(&before.text()?, &after.text()?);
        note(diff.trim_end());
        let (message_id, dry_run) = (self.id, session.options.dry_run);
        let mut edit = Edit { action: "redrive_edited", dry_run, message_id, replaced_by: None, diff };
        if !dry_run {
            confirm(&session.options, &format!("Replace the dead letter {message_id}"))?;
            let is_same_topic = after.topic == before.topic;
            let admin = session.admin_of_topic(&after.topic, is_same_topic.then_some(letter.lane.is_some())).await?;
            edit.replaced_by = Some(admin.redrive_edited(message_id, &after.into_message()?).await?);
        }
        session.output.document(&edit)?;
        Ok(Exit::Fine)
    }

    fn edited(&self, before: &Edited) -> Result<Edited, Error> {
        if let Some(file) = &self.file {
            return Edited::parse(&read_text(file)?);
        }
        let mut edited = before.clone();
        if let Some(file) = &self.payload_file {
            edited.payload = Some(Bytes::of(&read(file)?));
        }
        if let Some(topic) = &self.topic {
            edited.topic.clone_from(topic);
        }
        if let Some(kind) = &self.kind {
            edited.kind.clone_from(kind);
        }
        if self.key.is_some() {
            edited.key.clone_from(&self.key);
        }
        for Header { name, value } in &self.header {
            edited.headers.retain(|(known, _)| known != name);
            edited.headers.push((name.clone(), Bytes::Text(value.clone())));
        }
        let is_given = self.payload_file.is_some()
            || [&self.topic, &self.key, &self.kind].into_iter().any(Option::is_some)
            || !self.header.is_empty();
        if is_given { Ok(edited) } else { Edited::parse(&in_editor(&before.text()?)?) }
    }
}

/// What the editor of the user makes of a text.
fn in_editor(text: &str) -> Result<String, Error> {
    let failed = |what: &str, error| Error::File { what: what.to_owned(), error };
    let file = tempfile::Builder::new().prefix("dead-letter-").suffix(".json").tempfile();
    let file = file.map_err(|error| failed("the file to be edited cannot be made", error))?;
    std::fs::write(file.path(), text).map_err(|error| failed("the file to be edited cannot be written", error))?;
    let variables = ["VISUAL", "EDITOR"].iter().filter_map(|name| std::env::var(name).ok());
    let editor = variables.into_iter().find(|editor| !editor.trim().is_empty()).unwrap_or_else(|| "vi".to_owned());
    let mut words = editor.split_whitespace();
    let mut command = Command::new(words.next().unwrap_or("vi"));
    let status = command.args(words).arg(file.path()).status();
    let status = status.map_err(|error| failed(&format!("the editor {editor:?} cannot be run"), error))?;
    if !status.success() {
        return Err(Error::failed(format!("not done, because the editor {editor:?} failed: {status}")));
    }
    read_text(file.path())
}

fn read_text(path: &Path) -> Result<String, Error> {
    String::from_utf8(read(path)?).map_err(|_| Error::failed(format!("{} is not UTF-8", path.display())))
}

fn read(path: &Path) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    let read = match path.to_str() {
        Some("-") => std::io::stdin().read_to_end(&mut bytes).map(|_| bytes),
        _ => std::fs::read(path),
    };
    read.map_err(|error| Error::File { what: format!("{} cannot be read", path.display()), error })
}

fn diff(before: &str, after: &str) -> String {
    TextDiff::from_lines(before, after).unified_diff().header("dead letter", "edited").to_string()
}
