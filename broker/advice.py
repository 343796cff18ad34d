"""Advice for each return code: a sentence that says what to do, beside the vendor's words in `codes.py`.

An error tells its code, the vendor's text, what is special about the case, and this. A code that says that nothing is
wrong has none.
"""

from collections.abc import Mapping

_TABLE = """
00020002  log on with LOGON first, or ask the operator who is there
00030003  begin a conversation with CONV-ID=NEW; the one that is named has ended, or never was
00030005  send no more in this conversation; begin a new one with CONV-ID=NEW
00030010  begin a new conversation with CONV-ID=NEW when a server is registered again
00030011  discard what belongs to this conversation; begin a new one with CONV-ID=NEW
00030012  begin a new conversation with CONV-ID=NEW
00030067  begin a new conversation; the partner did nothing for CLIENT-NONACT or SERVER-NONACT
00030073  begin a new conversation; nothing was done in this one for CONV-NONACT
00070007  register for the service first, or start its server; DEFERRED=YES lets units of work wait for one
00080001  ask the operator for USERS-FILE, without which nobody logs on with a password
00080002  ask the operator to add the user to the users file
00080003  log on with the right user and password
00080004  ask the operator for a new password
00080005  choose another password; the operator sets it in the users file
00080006  ask the operator why the installation refuses it
00080007  ask the operator to add the user to the users file again
00080008  wait as long as the text says, then log on with the right password
00080009  ask the operator for the right in the users file
00080010  ask the operator to define it
00080011  call from another address, or ask the operator
00080012  call from another address, or ask the operator
00080254  ask the operator what the security system said
00080255  ask the operator why the security system is not reached
00080350  log on as the user that the connection belongs to
00080351  ask the operator for the right in the users file
00080352  log on anew, with user and password
00080353  log on anew; the security token is that of another logon
00080400  ask the operator to look at the users file
00080401  ask the operator for a right to the service in the users file
00080402  ask the operator for the right in the users file
00100050  end at once; the operator has shut this server down
00100051  finish the conversations that are open, then deregister
00200004  begin a new conversation; this one was ended with EOC
00200006  receive a message first; there is none to be undone or read again
00200031  say WAIT=NO, YES or a time as in 30S
00200048  deregister first; it is registered with ATTACH
00200052  deregister first; it is registered without ATTACH
00200094  say a larger RECEIVE-LENGTH, and read the message again with OPTION=LAST
00200098  call another function; this one is not for who is only logged on
00200134  log on first: with LOGON, over STOMP with CONNECT
00200181  say a USER-ID of 1 to 32 bytes that can be printed
00200182  send a function or a frame that the broker knows; the text says what was none
00200183  name a service as CLASS, SERVER and SERVICE of 1 to 32 bytes each, or a destination that there is
00200184  say as SEND-LENGTH how long the message is
00200185  say another CONV-ID: NEW begins a conversation, an identifier goes on with one
00200186  write characters that can be printed
00200187  say an option that goes with this function, or none
00200188  say one of the options that there are, and every header that has to be said
00200189  say as RECEIVE-LENGTH how many bytes are taken
00200191  say another CONV-ID, or another option
00200193  say no WAIT with this function
00200194  say no WAIT with this option
00200195  deregister as the server that has registered
00200199  receive with the identifier of your conversation, or register as a server first
00200200  receive with the identifier of your conversation, or register as a server first
00200208  say an API version that has this function; over STOMP one that the text names
00200212  say the whole name of the service, without *
00200216  say a BROKER-ID of 1 to 32 bytes that can be printed
00200218  send less at once, or let the operator allow longer messages
00200229  say STORE=OFF or BROKER, or nothing
00200252  say CONV-ID=NONE for this service
00200267  say CONV-ID=NEW for this service
00200268  register for a service of your own
00200302  back the unit of work out, then end the conversation
00200311  write a number, or a duration as in 30S
00200312  say a value within the limits that the text names
00200335  send and receive with OPTION=SYNC in this conversation, or begin another one
00200336  send and receive without OPTION=SYNC in this conversation, or begin another one
00200472  subscribe without durability, or let the operator connect the store and say SUBSCRIBER-STORE=PSTORE
00200478  receive the units of work that wait, or end the conversation with OPTION=CANCEL
00200482  say CONV-ID=NEW, or the identifier of a conversation
00200485  let the operator subscribe you, or say ALLOW-USER-SUBSCRIBE=YES, and ALLOW-DURABLE=YES for durable ones
00200494  let the operator say PUBLISH-AND-SUBSCRIBE=YES
00200505  commit or back out on the side that the unit of work is on: as its sender, or as its receiver
00200532  say an error code with REPLY_ERROR
00200533  say one of the broker's codes, eight digits
00200563  commit or back out what was received, then deregister
00200639  name a unit of work of your own
00200801  give the command SHUTDOWN as an operator
00209001  use a new identifier for other content; the first unit of work stays as it is
00210013  write a shorter value in the attribute file
00210023  correct the name in the attribute file; `oms attributes --example` shows all
00210027  correct the value in the attribute file; the text names the limits
00210028  correct the value in the attribute file; `oms attributes` checks it
00210034  define a service in the attribute file, or say DEFAULT-VALUES=OMS
00210037  say YES or NO in the attribute file
00210038  give the path of an attribute file that can be read
00210043  correct the name of the service, or let the operator define it in the attribute file
00210048  try again when another server of the service has ended
00360476  tell the operator; the broker has no identifiers left
00360477  tell the operator; the broker has no identifiers left
00370041  try again when a conversation of the service has ended, or let the operator raise CONV-LIMIT
00370042  try again later
00370057  try again later
00370061  try again later
00370230  try again when a conversation has ended, or let the operator raise NUM-CONVERSATION
00370445  try again later; the operator allows them with ALLOW-NEWUOWMSGS, or makes room in the store
00740009  try again later, or say WAIT
00740074  try again, or wait longer
00740300  try again later, or say WAIT
00740301  commit or back out what was received; then receive the next one
00740345  try again when units of work were received, or let the operator raise MAX-UOWS
00740346  send without a unit of work, or let the operator raise MAX-UOWS of the service
00740347  commit before this message, or let the operator raise MAX-MESSAGES-IN-UOW
00780304  try again when units of work were received
00780305  look at the identifier; what it names has ended and is no longer kept, or never was
00780306  say UOWID=BOTH only where one was received and another one sent in the conversation
00780307  ask for its status with SYNCPOINT OPTION=QUERY; this cannot be done in it
00780308  call as the user that has sent or received it
00780309  ask for its status with SYNCPOINT OPTION=QUERY, then try again
00780310  send both with the same STORE
00780313  read why it failed, mend that, and start the broker again
00780337  start the broker over another store; this one is damaged
00780350  send without a unit of work
00780351  say the UOWID, or BOTH
00780356  receive again, then try again
00780388  ask for the last unit of work with SYNCPOINT OPTION=LAST, and tell the operator that the store fails
00780389  ask for its status with SYNCPOINT OPTION=QUERY, and tell the operator that the store fails
00780624  try again soon, or ask the partner
00790204  use an API version that the broker knows; KERNELVERS says which
01960196  log on anew, if this is the place to go on
02150128  try again later; the broker has too much to do
02150148  look whether the broker runs, and whether its address is right; then try again
02150373  ask for the last unit of work with SYNCPOINT OPTION=LAST before the call is repeated
"""
ADVICE: Mapping[str, str] = {line[:8]: line[8:].strip() for line in _TABLE.strip().splitlines()}
