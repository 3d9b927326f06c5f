import type { AnswerRequest } from '../endpoint/endpoint.ts'

/** Learns what of one answer leaves this machine for a server, before it does. */
export interface Leaving {
  /**
   * A request is about to be sent.
   * @returns to be called if the connection failed, and nothing of it was sent
   * @throws BrimError DISCLOSURE_UNRECORDED: it must not be sent
   */
  request(to: URL, bytes: number): () => void
  /** Tokens of the answer have arrived, as far as the server counts them. */
  received(tokens: number): void
  /** No request follows. */
  ended(): void
}

export type LeavingOf = (request: AnswerRequest) => Leaving

/** Of a bridge: its clients have let the text out, and keep the ledger of it. */
export const leftByClients: LeavingOf = () => ({ request: () => () => {}, received() {}, ended() {} })
