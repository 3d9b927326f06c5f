import { seededRandom } from '../../core/kit/base/random.ts'
import type { Flood } from './flood.ts'

const mebibyte = 2 ** 20
/** Requests at a time. */
const clients = 4
/** A client leaves a request that takes longer, and sends the next. */
const patienceMs = 2_000

const conversation = (content: unknown) => JSON.stringify({ messages: [{ role: 'user', content }], max_tokens: 1 })
const completion = (prompt: string) => `{"max_tokens":1,"prompt":${prompt}}`

/** Letters in no order take the tokenizer longest. */
function randomLetters(length: number): string {
  const random = seededRandom(1)
  return Array.from({ length }, () => String.fromCharCode(97 + Math.floor(random.next() * 26))).join('')
}

/** Bodies that take long to parse, to check, to render or to tokenise. */
function hostileBodies(): string[] {
  const long = randomLetters(mebibyte - 1_024)
  return [
    conversation(long),
    completion(JSON.stringify(long)),
    completion(JSON.stringify('a'.repeat(7 * mebibyte))),
    completion(JSON.stringify(' '.repeat(mebibyte - 1))),
    completion(`[${'1,'.repeat(mebibyte)}1]`),
    completion(`${'['.repeat(mebibyte)}${']'.repeat(mebibyte)}`),
    conversation(Array(100_000).fill(0)),
    JSON.stringify({ messages: Array(4_000).fill({ role: 'user', content: 'a' }), max_tokens: 1 }),
    JSON.stringify({ messages: [{ role: 'user', content: 'a' }], stop: Array(100_000).fill('a') }),
  ]
}

/** Keeps the API of an agent busy with prompts that it must refuse, or tokenise apart. Does nothing where there is no agent. */
export const promptsFlood: Flood = {
  name: 'prompts',
  async run({ agentUrl }, signal) {
    const counts = { answered: 0, refused: 0, canceled: 0 }
    if (agentUrl === undefined) return counts
    const bodies = hostileBodies()
    let next = 0
    const send = async () => {
      const body = bodies[next++ % bodies.length]!
      const path = body.startsWith('{"messages"') ? '/v1/chat/completions' : '/v1/completions'
      const until = AbortSignal.any([signal, AbortSignal.timeout(patienceMs)])
      try {
        const headers = { 'content-type': 'application/json' }
        const response = await fetch(agentUrl + path, { method: 'POST', headers, body, signal: until })
        await response.arrayBuffer()
        if (response.ok) counts.answered += 1
        else counts.refused += 1
      } catch {
        // The connection was closed, or the client left.
        counts.canceled += 1
      }
    }
    const client = async () => {
      while (!signal.aborted) await send()
    }
    await Promise.all(Array.from({ length: clients }, client))
    return counts
  },
}
