// One browser runs these suites: launching another one costs more processor time than several tests.
import './api-key.suite.ts';
import './away.suite.ts';
import './changes.suite.ts';
import './conflict.suite.ts';
import './deleted.suite.ts';
import './post-edit.suite.ts';
import './posts.suite.ts';
import './users.suite.ts';
