import type { HatSession, ServedNow } from '../../core/wire/protocol/http/served-now.ts'
import { sessionHex } from '../../core/wire/protocol/messages.ts'
import type { Serving } from '../serving/serving.ts'
import type { Stream } from '../serving/stream.ts'
import type { Session } from './session.ts'

/** Of each list: those that began first. */
const maxListed = 64
/** Of the hash of a client, with which the name of an owner ends: enough to tell clients apart. */
const clientChars = 8

/** What the middle serves at this moment. @param servings by model id */
export function servedNow(sessions: readonly HatSession[], servings: ReadonlyMap<string, Pick<Serving, 'answers'>>): ServedNow {
  const answers = [...servings].flatMap(([modelId, serving]) =>
    serving.answers().map(({ client, ...answer }) => {
      const hash = client.split(' ').at(-1)!
      return { modelId, client: hash.slice(0, clientChars), ...answer }
    }),
  )
  return {
    sessions: sessions.slice(0, maxListed),
    moreSessions: Math.max(0, sessions.length - maxListed),
    answers: answers.slice(0, maxListed),
    moreAnswers: Math.max(0, answers.length - maxListed),
  }
}

interface OpenSession {
  readonly session: Pick<Session, 'id' | 'counts'>
  readonly stream: Pick<Stream, 'view'>
  readonly peer: { readonly device: string; readonly rttMs: number | undefined }
  readonly bytes: { readonly up: number; readonly down: number }
}

/** What operators see of a session; undefined: it closes. */
export function sessionView({ session, stream, peer, bytes }: OpenSession, modelId: string): HatSession | undefined {
  const view = stream.view()
  if (!view) return undefined
  const { device, rttMs = null } = peer
  const { rounds, drafted, accepted } = session.counts
  const figures = { rounds, drafted, accepted, bytesUp: bytes.up, bytesDown: bytes.down, rttMs }
  return { session: sessionHex(session.id), device, modelId, ...view, ...figures }
}
