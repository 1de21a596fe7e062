/// Set `TRYBUILD=overwrite` to accept what the compiler says now. With one program that passes, trybuild would build the library twice in
/// place of checking it.
#[test]
fn mistakes_are_explained() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
