// One browser runs these suites: launching another one costs more processor time than several tests.
import './accessibility.suite.ts';
import './curl.suite.ts';
import './history.suite.ts';
import './host-names.suite.ts';
import './keyboard.suite.ts';
import './layout.suite.ts';
import './list.suite.ts';
import './live.suite.ts';
import './reference.suite.ts';
import './reference-examples.suite.ts';
import './search.suite.ts';
import './text.suite.ts';
