//! A dead letter that is edited and redriven: the difference first, then the change.

use axum::extract::{Form, State};
use maud::{Markup, html};
use similar::{ChangeTag, TextDiff};

use super::required;
use crate::edited::{Edited, editable};
use crate::failure::Failure;
use crate::pages::Answer;
use crate::pages::layout::{Refresh, page};
use crate::pages::message::parse_id;
use crate::pages::parts::act::{Kind, button, hidden, reason};
use crate::state::Shared;
use crate::visit::Visit;

/// Shows the difference. It changes nothing, and is a POST because of its size.
pub(crate) async fn diff(visit: Visit, State(shared): State<Shared>, Form(edited): Form<Edited>) -> Answer {
    let (id, edited) = (parse_id(&edited.id)?, edited.received());
    let letter = shared.reader().dead_letter(id).await?;
    let (was, message) = (editable(&letter).map_err(Failure::conflict)?, edited.message()?);
    let is_same = was.message()? == message;
    let content = html! {
        (difference(&was.lines(), &edited.lines()))
        @if is_same { p { "Nothing is different. To send it again as it is, redrive it." } } @else {
            form method="post" action=(visit.to("/message/replace")) {
                (hidden(&edited.fields()))
                p { (reason()) }
                p { (button("Replace the dead letter", Kind::Final)) }
            }
        }
    };
    Ok(page(&visit, "What would be different", Refresh::Never, content))
}

pub(crate) async fn replace(visit: Visit, State(shared): State<Shared>, Form(edited): Form<Edited>) -> Answer {
    let (id, edited) = (parse_id(&edited.id)?, edited.received());
    let admin = shared.writer(&visit, required(&edited.reason)?);
    let new_id = admin.redrive_edited(id, &edited.message()?).await?;
    Ok(visit.go(visit.to("/message").with("id", new_id.to_string()), "edited"))
}

fn difference(was: &str, becomes: &str) -> Markup {
    let diff = TextDiff::from_lines(was, becomes);
    html! {
        pre.diff tabindex="0" {
            @for change in diff.iter_all_changes() {
                @let line = change.value().trim_end_matches('\n');
                @match change.tag() {
                    ChangeTag::Equal => span { "  " (line) },
                    ChangeTag::Delete => del { "- " (line) },
                    ChangeTag::Insert => ins { "+ " (line) },
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_difference_is_shown_line_by_line() {
        let shown = difference("a\nb\n", "a\n<c>\n").into_string();
        assert!(shown.contains("<span>  a</span>") && shown.contains("<del>- b</del>"), "{shown}");
        assert!(shown.contains("<ins>+ &lt;c&gt;</ins>"), "{shown}");
    }
}
