//! What the compiler says of an event that its codec cannot encode.

/// Set `TRYBUILD=overwrite` to accept what the compiler says now.
#[test]
fn programs_compile_or_fail_as_expected_in_memory() {
    let programs = trybuild::TestCases::new();
    programs.pass("tests/ui/pass/*.rs");
    programs.compile_fail("tests/ui/fail/*.rs");
}
