use std::fmt;

use crate::message::Envelope;
use crate::transport::FailureClass;

/// What a [`MemoryTransport`](super::MemoryTransport) does with a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ScriptedResponse {
    /// Stores it and reports success.
    Deliver,
    /// Does not accept it: the client's queue is full.
    Busy,
    /// Stores nothing and reports a failure.
    Fail(FailureClass),
    /// Stores it and reports a failure: a lost acknowledgement.
    StoreThenFail(FailureClass),
    /// Stores nothing and never reports an outcome.
    Silence,
}

/// The rules that decide the answers.
#[derive(Default)]
pub(super) struct Script(Vec<Rule>);

struct Rule {
    applies: Box<dyn FnMut(&Envelope) -> bool + Send>,
    /// How many more messages it answers; `None` means no limit.
    left: Option<usize>,
    response: ScriptedResponse,
}

impl Script {
    pub(super) fn next(&mut self, count: usize, response: ScriptedResponse) {
        self.0.push(Rule { applies: Box::new(|_| true), left: Some(count), response });
    }

    pub(super) fn matching(
        &mut self,
        response: ScriptedResponse,
        applies: impl FnMut(&Envelope) -> bool + Send + 'static,
    ) {
        self.0.push(Rule { applies: Box::new(applies), left: None, response });
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    pub(super) fn response(&mut self, envelope: &Envelope) -> ScriptedResponse {
        self.0.retain(|rule| rule.left != Some(0));
        let Some(rule) = self.0.iter_mut().find_map(|rule| (rule.applies)(envelope).then_some(rule)) else {
            return ScriptedResponse::Deliver;
        };
        rule.left = rule.left.map(|left| left - 1);
        rule.response
    }
}

impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|rule| (rule.left, rule.response))).finish()
    }
}
