import { setMaxListeners } from 'node:events'
import { Agent, request } from 'node:http'
import { seededRandom } from '../../core/kit/base/random.ts'
import type { Flood } from './flood.ts'

/** Requests at a time. */
const clients = 16
/** Long enough for the tokenizer's thread, short enough for the context's bound in bytes. */
const longChars = 16 * 1_024

/** Letters in no order, which have many tokens. */
function randomLetters(): string {
  const random = seededRandom(1)
  return Array.from({ length: longChars }, () => String.fromCharCode(97 + Math.floor(random.next() * 26))).join('')
}

const question = { temperature: 0, ignore_eos: true, max_tokens: 64 }
const asking = (content: string, fields: object = {}) =>
  JSON.stringify({ ...question, messages: [{ role: 'user', content }], ...fields })

/** One API key asks the bridge's model for as many answers as it can: alone, 128 to a request, and to long prompts. */
export const answersFlood: Flood = {
  name: 'answers',
  keyRole: 'client',
  async run({ httpUrl, apiKey = '' }, signal) {
    const counts = { answered: 0, refused: 0, limited: 0, failed: 0 }
    const agent = new Agent({ keepAlive: true, maxSockets: clients })
    const bodies = [asking('Where does the river rise?'), asking('Who keeps the lamp?', { n: 128 }), asking(randomLetters())]
    // Each request listens.
    const stop = AbortSignal.any([signal])
    setMaxListeners(0, stop)
    let next = 0
    const attack = async () => {
      while (!signal.aborted) {
        const body = bodies[next++ % bodies.length]!
        const status = await post(`${httpUrl}/v1/chat/completions`, { apiKey, body, agent, signal: stop }).catch(() => undefined)
        if (status === undefined) counts.failed += 1
        else if (status === 429) counts.limited += 1
        else if (status >= 400) counts.refused += 1
        else counts.answered += 1
      }
    }
    await Promise.all(Array.from({ length: clients }, attack))
    agent.destroy()
    return counts
  },
}

interface Post {
  readonly apiKey: string
  readonly body: string
  readonly agent: Agent
  readonly signal: AbortSignal
}

const post = (url: string, { apiKey, body, agent, signal }: Post) =>
  new Promise<number | undefined>((resolve, reject) => {
    const headers = { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' }
    const sent = request(url, { method: 'POST', agent, headers, signal }, (response) => {
      response.resume().once('close', () => resolve(response.statusCode))
    })
    sent.once('error', reject).end(body)
  })
