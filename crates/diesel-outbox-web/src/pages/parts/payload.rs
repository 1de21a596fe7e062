//! Payloads and headers: for visitors who may see them, and otherwise only what they are called and how large they are.

use std::fmt::Write as _;

use diesel_outbox::Headers;
use diesel_outbox::admin::{Admin, PayloadText};
use maud::{Markup, html};

use crate::access::Right;
use crate::limits::{BYTES_SHOWN_MAX, PAYLOAD_SHOWN_MAX};
use crate::visit::Visit;

/// What is shown of a message's content.
pub(crate) struct Content<'a> {
    pub(crate) topic: &'a str,
    pub(crate) kind: &'a str,
    pub(crate) headers_json: &'a str,
    pub(crate) payload: Option<&'a [u8]>,
}

impl Content<'_> {
    pub(crate) fn show(&self, visit: &Visit, admin: &Admin) -> Markup {
        let may_see = visit.may(Right::Payloads);
        html! {
            h2 { "Headers" }
            (headers(self.headers_json, may_see))
            h2 { "Payload" }
            @if may_see { (self.text(admin)) } @else { (self.size()) }
        }
    }

    fn size(&self) -> Markup {
        html! {
            @match self.payload {
                Some(bytes) => p.quiet { (bytes.len()) " bytes. Seeing them needs the right \"payloads\"." },
                None => p.quiet { "No payload: a tombstone." },
            }
        }
    }

    fn text(&self, admin: &Admin) -> Markup {
        match admin.decode(self.topic, self.kind, self.payload) {
            PayloadText::Text(text) => html! { (pre(&text)) },
            PayloadText::Tombstone => html! { p.quiet { "No payload: a tombstone." } },
            PayloadText::Unreadable { bytes, error } => html! {
                p.problem { "The application's codec cannot read it: " (error) }
                (raw(bytes))
            },
            PayloadText::Unregistered { bytes } => html! {
                p.quiet { "No type is registered for topic " code { (self.topic) } " and kind " code { (self.kind) } ": shown as it is." }
                (raw(bytes))
            },
            _ => self.size(),
        }
    }
}

fn headers(column: &str, may_see: bool) -> Markup {
    match Headers::from_json(column) {
        Ok(headers) if headers.is_empty() => html! { p.quiet { "None." } },
        Ok(headers) => html! {
            dl {
                @for (name, value) in headers.iter() {
                    dt { (name) }
                    dd.mono { @if may_see { (String::from_utf8_lossy(value)) } @else { span.quiet { (value.len()) " bytes" } } }
                }
            }
        },
        Err(error) => html! {
            p.problem { "They cannot be read: " (error) }
            @if may_see { (pre(column)) }
        },
    }
}

/// Text if it is text, otherwise its bytes.
fn raw(bytes: &[u8]) -> Markup {
    match std::str::from_utf8(bytes) {
        Ok(text) => pre(text),
        Err(_) => html! {
            pre { (hexadecimal(&bytes[..bytes.len().min(BYTES_SHOWN_MAX)])) }
            @if bytes.len() > BYTES_SHOWN_MAX { p.quiet { "The first " (BYTES_SHOWN_MAX) " of " (bytes.len()) " bytes." } }
        },
    }
}

fn pre(text: &str) -> Markup {
    let mut end = text.len().min(PAYLOAD_SHOWN_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    html! {
        pre tabindex="0" { (text[..end]) }
        @if end < text.len() { p.quiet { "The first " (end) " of " (text.len()) " bytes." } }
    }
}

/// Sixteen bytes a line, with what is printable beside them.
fn hexadecimal(bytes: &[u8]) -> String {
    let mut lines = String::new();
    for (at, line) in bytes.chunks(16).enumerate() {
        let numbers: Vec<String> = line.iter().map(|byte| format!("{byte:02x}")).collect();
        let printable: String =
            line.iter().map(|&byte| if (0x20..0x7f).contains(&byte) { byte as char } else { '.' }).collect();
        // A text takes whatever is written.
        let _ = writeln!(lines, "{:06x}  {:47}  {printable}", at * 16, numbers.join(" "));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_shown_with_what_is_printable() {
        let lines = hexadecimal(b"\x00\xffabcdefghijklmno<");
        let lines: Vec<&str> = lines.lines().collect();
        assert_eq!(lines[0], "000000  00 ff 61 62 63 64 65 66 67 68 69 6a 6b 6c 6d 6e  ..abcdefghijklmn");
        assert!(lines[1].starts_with("000010  6f 3c ") && lines[1].ends_with("  o<"), "{lines:?}");
    }

    #[test]
    fn values_of_headers_are_shown_to_those_who_may_see_them() {
        let column = r#"[["token","swordfish<script>"]]"#;
        let (shown, hidden) = (headers(column, true).into_string(), headers(column, false).into_string());
        assert!(shown.contains("swordfish&lt;script&gt;"), "{shown}");
        assert!(hidden.contains("token") && hidden.contains("17 bytes") && !hidden.contains("swordfish"), "{hidden}");
        assert!(!headers("swordfish", false).into_string().contains("swordfish"), "those that cannot be read neither");
    }

    #[test]
    fn a_long_text_is_cut_between_its_characters() {
        let text = "é".repeat(PAYLOAD_SHOWN_MAX);
        let shown = pre(&text).into_string();
        assert!(shown.contains(&format!("The first {PAYLOAD_SHOWN_MAX} of {} bytes", text.len())));
    }
}
