import { Agent, request } from 'node:http'
import { seededRandom } from '../../core/kit/base/random.ts'
import type { AttackTarget, Flood } from './flood.ts'

interface HostileRequest {
  readonly method?: 'GET'
  readonly url: string
  readonly apiKey?: string | undefined
  /** Of a POST: JSON. */
  readonly body?: string
}

interface HttpFlood extends Pick<Flood, 'name' | 'keyRole'> {
  /** Each sends one request after the other. */
  readonly connections: number
  /** Absent: no limit. */
  readonly maxRequests?: number
  /** A client leaves a request that takes longer, or that the end of the flood interrupts. Absent: it waits for the response. */
  readonly patienceMs?: number
  /** @returns the n-th request; undefined: there is nothing to attack */
  requests(target: AttackTarget): ((n: number) => HostileRequest) | undefined
}

function httpFlood({ name, keyRole, connections, maxRequests = Infinity, patienceMs, requests }: HttpFlood): Flood {
  return {
    name,
    keyRole,
    async run(target, signal) {
      const counts = { requests: 0, answered: 0, refused: 0, limited: 0, failed: 0 }
      const requestOf = requests(target)
      if (!requestOf) return counts
      const agent = new Agent({ keepAlive: true, maxSockets: connections })
      const attack = async () => {
        while (counts.requests < maxRequests && !signal.aborted) {
          const end = patienceMs === undefined ? undefined : AbortSignal.any([signal, AbortSignal.timeout(patienceMs)])
          const status = await send(requestOf(counts.requests++), agent, end).catch(() => undefined)
          counts[outcomeOf(status)] += 1
        }
      }
      await Promise.all(Array.from({ length: connections }, attack))
      agent.destroy()
      return counts
    },
  }
}

/** @param status of the response; undefined: there was none */
function outcomeOf(status: number | undefined) {
  if (status === undefined) return 'failed'
  if (status === 429) return 'limited'
  return status >= 400 ? 'refused' : 'answered'
}

const send = ({ method, url, apiKey, body = '{}' }: HostileRequest, agent: Agent, signal: AbortSignal | undefined) =>
  new Promise<number | undefined>((resolve, reject) => {
    const headers = {
      ...(method === undefined && { 'content-type': 'application/json' }),
      ...(apiKey !== undefined && { authorization: `Bearer ${apiKey}` }),
    }
    const sent = request(url, { method: method ?? 'POST', agent, headers, signal }, (response) => {
      response.resume().once('close', () => resolve(response.statusCode))
    })
    sent.once('error', reject).end(method === undefined ? body : undefined)
  })

/** Requests without a key: one needs no identity, one is refused, one leaves something at the bridge, one does not exist. */
export const anonymousRequests = httpFlood({
  name: 'anonymous-requests',
  connections: 8,
  requests({ httpUrl }) {
    const turns: readonly HostileRequest[] = [
      { method: 'GET', url: `${httpUrl}/health` },
      { method: 'GET', url: `${httpUrl}/v1/devices` },
      { url: `${httpUrl}/v1/identity/nonce` },
      { method: 'GET', url: `${httpUrl}/v1/nothing` },
    ]
    return (n) => turns[n % turns.length]!
  },
})

/** A viewer asks for what only an admin may do: each refusal is audited. Paths are just below the longest that Node accepts. */
export const refusals = httpFlood({
  name: 'refusals',
  connections: 8,
  maxRequests: 5_000,
  requests({ httpUrl, apiKey }) {
    return (n) => ({ url: `${httpUrl}/v1/admin/devices/${String(n).padEnd(15_000, 'x')}/approve`, apiKey })
  },
})

/** Letters in no order, which have many tokens and take the tokenizer longest. */
function randomLetters(length: number): string {
  const random = seededRandom(1)
  return Array.from({ length }, () => String.fromCharCode(97 + Math.floor(random.next() * 26))).join('')
}

const mebibyte = 2 ** 20
const keptResponse = (input: string) => {
  const metadata = Object.fromEntries(Array.from({ length: 16 }, (_, at) => [`key${at}`, 'x'.repeat(512)]))
  return JSON.stringify({ input, metadata, store: true, max_output_tokens: 1 })
}
const conversation = (content: unknown, fields: object = { max_tokens: 1 }) =>
  JSON.stringify({ messages: [{ role: 'user', content }], ...fields })

/** One API key asks the bridge's model for as many answers as it can: alone, 128 to a request, to long prompts, and to be kept. */
export const answersFlood = httpFlood({
  name: 'answers',
  keyRole: 'client',
  connections: 16,
  patienceMs: 60_000,
  requests({ httpUrl, apiKey }) {
    const asked = { temperature: 0, ignore_eos: true, max_tokens: 64 }
    const chat = `${httpUrl}/v1/chat/completions`
    const turns: readonly HostileRequest[] = [
      { url: chat, apiKey, body: conversation('Where does the river rise?', asked) },
      { url: chat, apiKey, body: conversation('Who keeps the lamp?', { ...asked, n: 128 }) },
      // Long enough for the tokenizer's thread, short enough for the context's bound in bytes.
      { url: chat, apiKey, body: conversation(randomLetters(16 * 1_024), asked) },
      // What is kept of it is many times as long as what the model reads.
      { url: `${httpUrl}/v1/responses`, apiKey, body: keptResponse('Who keeps this?') },
    ]
    return (n) => turns[n % turns.length]!
  },
})

const completion = (prompt: string) => `{"max_tokens":1,"prompt":${prompt}}`

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
    conversation('a', { stop: Array(100_000).fill('a') }),
  ]
}

/** Keeps the API of an agent busy with prompts that it must refuse, or tokenise apart. Does nothing where there is no agent. */
export const promptsFlood = httpFlood({
  name: 'prompts',
  connections: 4,
  patienceMs: 2_000,
  requests({ agentUrl }) {
    if (agentUrl === undefined) return undefined
    const bodies = hostileBodies()
    return (n) => {
      const body = bodies[n % bodies.length]!
      const path = body.startsWith('{"messages"') ? '/v1/chat/completions' : '/v1/completions'
      return { url: agentUrl + path, body }
    }
  },
})
