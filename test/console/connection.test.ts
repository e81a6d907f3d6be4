// One browser runs these suites: launching another one costs more processor time than several tests.
import './api-key.suite.ts';
import './away.suite.ts';
import './changes.suite.ts';
import './curl.suite.ts';
