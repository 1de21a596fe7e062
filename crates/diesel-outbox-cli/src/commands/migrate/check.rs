use serde::Serialize;

use crate::error::{Error, hint_of};
use crate::exit::Exit;
use crate::output::{Document, Page};
use crate::session::Session;

#[derive(Debug, Serialize)]
struct Tables {
    /// What is wrong with each table.
    problems: Vec<String>,
    #[serde(skip)]
    hint: Option<&'static str>,
}

impl Document for Tables {
    fn show(&self, page: &mut Page) {
        if self.problems.is_empty() {
            page.line("every table is there, in the version of this release");
        }
        for problem in &self.problems {
            page.line(problem);
        }
        page.field_of("hint", self.hint);
    }
}

pub(super) async fn run(session: &Session) -> Result<Exit, Error> {
    let problems = session.admin.check_tables().await?;
    let (texts, hint) = (problems.iter().map(ToString::to_string).collect(), problems.iter().find_map(hint_of));
    session.output.document(&Tables { problems: texts, hint })?;
    Ok(if problems.is_empty() { Exit::Fine } else { Exit::Found })
}
