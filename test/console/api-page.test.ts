// One browser runs these suites: launching another one costs more processor time than several tests.
import './reference.suite.ts';
import './reference-examples.suite.ts';
