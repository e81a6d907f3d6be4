import { declareTests } from './run-tests.ts';

// The test runner accepts only files. The caller of `runTests` decides which tests this file declares.
declareTests();
