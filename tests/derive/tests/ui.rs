/// Set `TRYBUILD=overwrite` to accept what the compiler says now.
#[test]
fn programs_compile_or_fail_as_expected() {
    let programs = trybuild::TestCases::new();
    programs.pass("tests/ui/pass/*.rs");
    programs.compile_fail("tests/ui/fail/*.rs");
}
