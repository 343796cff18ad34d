// What the suite of stompjs is told of the server: it is loaded behind the suite's own settings.
'use strict';
TEST.login = process.env.OMS_USER;
TEST.password = process.env.OMS_PASSWORD;
console.log = () => {}; // each client says all that it does
