//! Decodes messages in a consumer: those of the current shape, and those of old ones.

use std::any::{Any, TypeId, type_name};
use std::fmt;
use std::marker::PhantomData;

use diesel_outbox::codec::Json;
use diesel_outbox::transport::header::FINGERPRINT;
use diesel_outbox::{CodecError, Headers, OutboxMessage};

use crate::Decode;

/// A value of an old type, or of the one that it is converted to.
type AnyEvent = Box<dyn Any>;

/// Decodes the payloads of one event, of every shape that it has had. `C` is its codec.
///
/// Which shape a message has is in its header `outbox-fingerprint`, if the producer's outbox sends
/// [fingerprints](diesel_outbox::OutboxBuilder::fingerprints).
///
/// Each old type must be convertible, or it does not compile:
///
/// ```compile_fail,E0277
/// # use {diesel_outbox::OutboxMessage, diesel_outbox_codecs::Decoder};
/// # #[derive(serde::Serialize, serde::Deserialize, OutboxMessage)]
/// # #[outbox(topic = "orders")]
/// # struct Old { order_id: i64 }
/// # #[derive(serde::Serialize, serde::Deserialize, OutboxMessage)]
/// # #[outbox(topic = "orders")]
/// # struct New { order_id: i64, currency: String }
/// Decoder::<New>::builder().upcast::<Old, New>().build();
/// ```
pub struct Decoder<T, C = Json> {
    old: Vec<OldShape>,
    is_lenient: bool,
    of: PhantomData<fn() -> (T, C)>,
}

/// Configures and builds a [`Decoder`]. From [`Decoder::builder`].
#[must_use = "a decoder is there only after `build`"]
pub struct DecoderBuilder<T, C = Json> {
    decoder: Decoder<T, C>,
}

/// An old type, and how its values become those of the next one.
#[derive(Debug, Clone, Copy)]
struct OldShape {
    from: TypeId,
    name: &'static str,
    fingerprints: &'static [&'static str],
    decode: fn(&[u8]) -> Result<AnyEvent, CodecError>,
    to: TypeId,
    to_name: &'static str,
    /// Gives the value back if it is not of the old type.
    convert: fn(AnyEvent) -> Result<AnyEvent, AnyEvent>,
}

impl<T: OutboxMessage + 'static, C: Decode<T>> Decoder<T, C> {
    /// Starts to configure a decoder. Without old types it decodes only `T`.
    pub fn builder() -> DecoderBuilder<T, C> {
        DecoderBuilder { decoder: Self { old: Vec::new(), is_lenient: false, of: PhantomData } }
    }

    /// Decodes a payload. `fingerprint` is the value of the message's header `outbox-fingerprint`; without the header the payload is
    /// taken for one of `T`.
    ///
    /// # Errors
    /// Returns an error if no type of the decoder has the fingerprint, or if the payload cannot be decoded.
    pub fn decode(&self, fingerprint: Option<&[u8]>, payload: &[u8]) -> Result<T, DecodeError> {
        let Some(fingerprint) = fingerprint else { return decode::<T, C>(payload) };
        let has = |known: &[&str]| known.iter().any(|known| known.as_bytes() == fingerprint);
        if has(T::FINGERPRINTS) {
            return decode::<T, C>(payload);
        }
        match self.old.iter().find(|old| has(old.fingerprints)) {
            Some(old) => self.upcast(old, payload),
            None if self.is_lenient => decode::<T, C>(payload),
            None => Err(DecodeError::UnknownFingerprint {
                fingerprint: String::from_utf8_lossy(fingerprint).into_owned(),
                event: type_name::<T>(),
                known: self.known(),
            }),
        }
    }

    /// Decodes a message by its headers: those of a consumer's record, of an envelope, or of a dead letter. A tombstone is `None`.
    ///
    /// # Errors
    /// Returns the error of [`decode`](Self::decode), as one of a codec: in a handler of the library's consumer `?` makes it an error
    /// that is not tried again.
    pub fn decode_message(&self, headers: &Headers, payload: Option<&[u8]>) -> Result<Option<T>, CodecError> {
        let Some(payload) = payload else { return Ok(None) };
        self.decode(headers.get(FINGERPRINT), payload).map(Some).map_err(CodecError::new)
    }

    fn upcast(&self, old: &OldShape, payload: &[u8]) -> Result<T, DecodeError> {
        let mut step = old;
        let mut value = (old.decode)(payload).map_err(|error| DecodeError::Payload { event: old.name, error })?;
        loop {
            // `build` has seen that each chain ends at `T`.
            value = (step.convert)(value).unwrap_or_else(|_| unreachable!("a step gets what the one before it made"));
            if step.to == TypeId::of::<T>() {
                let converted = value.downcast::<T>().unwrap_or_else(|_| unreachable!("the last step makes it"));
                return Ok(*converted);
            }
            let next = self.old.iter().find(|next| next.from == step.to);
            step = next.unwrap_or_else(|| unreachable!("each chain ends at the event's type"));
        }
    }

    fn known(&self) -> Vec<&'static str> {
        let old = self.old.iter().flat_map(|old| old.fingerprints);
        T::FINGERPRINTS.iter().chain(old).copied().collect()
    }
}

fn decode<T, C: Decode<T>>(payload: &[u8]) -> Result<T, DecodeError> {
    C::decode(payload).map_err(|error| DecodeError::Payload { event: type_name::<T>(), error })
}

impl<T: OutboxMessage + 'static, C: Decode<T>> DecoderBuilder<T, C> {
    /// Adds an old type. A payload with a fingerprint of `Old` is decoded as `Old` and converted to `New`, which is the decoder's
    /// type, or an old one that is added too.
    ///
    /// `Old` is a copy of the type as it was, under any name, with its fields, types and attributes as they were written.
    pub fn upcast<Old, New>(self) -> Self
    where
        Old: OutboxMessage + 'static,
        New: From<Old> + 'static,
        C: Decode<Old>,
    {
        self.upcast_from::<C, Old, New>()
    }

    /// The same for an old type that had another codec.
    pub fn upcast_from<OldCodec, Old, New>(mut self) -> Self
    where
        Old: OutboxMessage + 'static,
        New: From<Old> + 'static,
        OldCodec: Decode<Old>,
    {
        self.decoder.old.push(OldShape {
            from: TypeId::of::<Old>(),
            name: type_name::<Old>(),
            fingerprints: Old::FINGERPRINTS,
            decode: |payload| Ok(Box::new(OldCodec::decode(payload)?)),
            to: TypeId::of::<New>(),
            to_name: type_name::<New>(),
            convert: |value| value.downcast::<Old>().map(|old| Box::new(New::from(*old)) as AnyEvent),
        });
        self
    }

    /// Decodes a payload with an unknown fingerprint as the decoder's type, instead of refusing it. For producers that are deployed
    /// before their consumers, and only add fields: the codec skips what it does not know.
    pub fn accept_unknown(mut self) -> Self {
        self.decoder.is_lenient = true;
        self
    }

    /// Builds the decoder.
    ///
    /// # Errors
    /// Returns an error if an old type has no fingerprint, has one that another type of the decoder has, or does not lead to the
    /// decoder's type.
    pub fn build(self) -> Result<Decoder<T, C>, DecoderBuildError> {
        let Self { decoder } = self;
        let mut seen: Vec<(&str, &'static str)> =
            T::FINGERPRINTS.iter().map(|fingerprint| (*fingerprint, type_name::<T>())).collect();
        for old in &decoder.old {
            if old.fingerprints.is_empty() {
                return Err(DecoderBuildError::NoFingerprint { old: old.name });
            }
            for fingerprint in old.fingerprints {
                if let Some((_, other)) = seen.iter().find(|(known, _)| known == fingerprint) {
                    return Err(DecoderBuildError::SameShape { old: old.name, other });
                }
            }
            seen.extend(old.fingerprints.iter().map(|fingerprint| (*fingerprint, old.name)));
            decoder.check_chain(old)?;
        }
        Ok(decoder)
    }
}

impl<T: 'static, C> Decoder<T, C> {
    fn check_chain(&self, old: &OldShape) -> Result<(), DecoderBuildError> {
        let mut step = old;
        // A chain of distinct types has no more steps than there are old types.
        for _ in 0..self.old.len() {
            if step.to == TypeId::of::<T>() {
                return Ok(());
            }
            let Some(next) = self.old.iter().find(|next| next.from == step.to) else { break };
            step = next;
        }
        Err(DecoderBuildError::DeadEnd { old: old.name, end: step.to_name, event: type_name::<T>() })
    }
}

impl<T, C> fmt::Debug for Decoder<T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let old: Vec<&str> = self.old.iter().map(|old| old.name).collect();
        f.debug_struct("Decoder").field("event", &type_name::<T>()).field("old", &old).finish_non_exhaustive()
    }
}

impl<T, C> fmt::Debug for DecoderBuilder<T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DecoderBuilder").field("decoder", &self.decoder).finish()
    }
}

/// Why a message could not be decoded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The message has a shape that no type of the decoder has.
    #[error(
        "no type of the decoder for `{event}` has the fingerprint {fingerprint:?}; known are {known:?}. The producer is newer, or its \
         old type was changed here: deploy a consumer with the producer's type, or add the type as it was with \
         `upcast::<Old, New>()`"
    )]
    UnknownFingerprint {
        /// The message's fingerprint.
        fingerprint: String,
        /// The decoder's type.
        event: &'static str,
        /// The fingerprints of the decoder's types.
        known: Vec<&'static str>,
    },
    /// The payload is not one of the type that its fingerprint says.
    #[error("the payload cannot be decoded as `{event}`: {error}")]
    Payload {
        /// The type.
        event: &'static str,
        /// The codec's error.
        error: CodecError,
    },
}

/// Why a decoder could not be built.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecoderBuildError {
    /// An old type has no fingerprint.
    #[error(
        "`{old}` has no fingerprint to be recognised by: derive `OutboxMessage` for it, and do not make it a tombstone"
    )]
    NoFingerprint {
        /// The old type.
        old: &'static str,
    },
    /// An old type has the shape of another type.
    #[error(
        "`{old}` has a fingerprint of `{other}`, so no message could tell them apart: write it as it was, or remove it"
    )]
    SameShape {
        /// The old type.
        old: &'static str,
        /// The type with the same fingerprint.
        other: &'static str,
    },
    /// An old type is not converted to the decoder's type.
    #[error("`{old}` becomes `{end}`, and nothing makes that a `{event}`: add the missing `upcast`")]
    DeadEnd {
        /// The old type.
        old: &'static str,
        /// Where its conversions end.
        end: &'static str,
        /// The decoder's type.
        event: &'static str,
    },
}

#[cfg(test)]
mod tests;
