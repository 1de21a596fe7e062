::core::compile_error! {
    "no topic: add `#[outbox(topic = \"..\")]`, or `#[outbox(topic = field)]` to choose it at run time"
}
::core::compile_error! {
    "the kind is empty: say what happened, as in `kind = \"order.placed\"`, or leave it out"
}
#[automatically_derived]
impl<T> renamed::OutboxMessage for Wrong<T>
where
    T: Copy,
{
    const TOPIC: ::core::option::Option<&'static str> = ::core::option::Option::None;
    const KIND: &'static str = "";
    fn payload(
        &self,
    ) -> ::core::result::Result<
        ::core::option::Option<::std::vec::Vec<u8>>,
        renamed::CodecError,
    > {
        ::core::result::Result::Ok(::core::option::Option::None)
    }
}
