import { declareTests } from './run-tests.ts';

// The test runner takes files, and the tests of this one depend on the caller of `runTests`.
declareTests();
