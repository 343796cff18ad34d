// Writes one line of JSON for each test, and one at the end, into the file that JASMINE_RESULTS names.
'use strict';
const fs = require('fs');

module.exports = class {
  constructor() {
    this.file = fs.openSync(process.env.JASMINE_RESULTS, 'w');
  }

  say(line) {
    fs.writeSync(this.file, JSON.stringify(line) + '\n');
  }

  specDone(result) {
    this.say({ name: result.fullName, status: result.status });
    for (const failure of result.failedExpectations) {
      process.stdout.write(`${result.fullName}: ${failure.message}\n`);
    }
  }

  jasmineDone() {
    this.say({ status: 'complete' });
  }
};
