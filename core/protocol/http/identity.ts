import { EnrolReply, EnrolRequest, GrantReply, GrantRequest, NonceReply } from '../identity.ts'
import type { Operations } from './operation.ts'

export const identityOperations = {
  nonce: {
    method: 'POST',
    path: '/v1/identity/nonce',
    access: 'open',
    summary: 'A nonce for one signature',
    response: NonceReply,
  },
  enrol: {
    method: 'POST',
    path: '/v1/identity/enroll',
    access: 'open',
    summary: 'Enrol a device with a one-time token and a signature of its key',
    body: EnrolRequest,
    response: EnrolReply,
  },
  session: {
    method: 'POST',
    path: '/v1/identity/session',
    access: 'open',
    summary: 'A bearer token for MQTT and WebSocket, for a signature of an enrolled key',
    body: GrantRequest,
    response: GrantReply,
  },
} as const satisfies Operations
