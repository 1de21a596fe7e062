use clap::Args;
use clap_complete::{Shell, generate};

use crate::application::Application;
use crate::arguments::Format;
use crate::error::Error;
use crate::exit::Exit;
use crate::output::Output;

/// For which shell.
#[derive(Debug, Clone, Args)]
pub(crate) struct CompletionsArgs {
    shell: Shell,
}

impl CompletionsArgs {
    pub(crate) fn run(&self, application: Application) -> Result<Exit, Error> {
        let mut command = application.whole_command();
        let (name, mut script) = (command.get_name().to_owned(), Vec::new());
        generate(self.shell, &mut command, name, &mut script);
        Output::new(Format::Table).text(&String::from_utf8_lossy(&script))?;
        Ok(Exit::Fine)
    }
}
