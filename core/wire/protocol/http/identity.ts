import {
  EnrolReply,
  EnrolRequest,
  GrantReply,
  GrantRequest,
  NonceReply,
  RenewKeyReply,
  RenewKeyRequest,
  SubjectReply,
} from '../identity.ts'
import { get, type Operations, post } from './operation.ts'

export const identityOperations = {
  nonce: post('/v1/identity/nonce', 'open', 'A nonce for one signature', { response: NonceReply }),
  enrol: post('/v1/identity/enroll', 'open', 'Enrol a device with a one-time token and a signature of its key', {
    body: EnrolRequest,
    response: EnrolReply,
  }),
  session: post('/v1/identity/session', 'open', 'A bearer token for MQTT and WebSocket, for a signature of an enrolled key', {
    body: GrantRequest,
    response: GrantReply,
  }),
  renewKey: post('/v1/identity/key', 'open', 'Replace the key of a device, signed by the old and the new one', {
    body: RenewKeyRequest,
    response: RenewKeyReply,
  }),
  subject: get('/v1/identity/subject', 'open', 'What the bearer token of the request proves', { response: SubjectReply }),
} satisfies Operations
