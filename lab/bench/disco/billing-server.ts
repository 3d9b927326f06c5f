import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { Clock } from '../../../core/kit/base/clock.ts'
import { readBody } from '../../../core/kit/base/http-client.ts'
import { costOf } from '../../../core/policy/disco/costs.ts'
import type { TokenCosts } from '../../../core/policy/disco/state.ts'
import { onLoopback } from '../../cluster/loopback-server.ts'

/** What a server reports of the tokens of an answer. */
export const usages = ['exact', 'none', 'small', 'huge', 'negative', 'text', 'half'] as const
/** What ends its stream: a finish reason, `[DONE]`, both or neither. */
export const endings = ['both', 'reason', 'done', 'neither'] as const

/** How a server answers a request. */
export interface Manner {
  readonly perEvent: number
  readonly usage: (typeof usages)[number]
  readonly ending: (typeof endings)[number]
  /** Whether it goes on beyond `max_tokens`, in one event. */
  readonly exceeds?: boolean
  /** Tokens after which it sends nothing more, and keeps the connection open. */
  readonly silentAfter?: number
  /** Before its first event, and between two. */
  readonly firstMs?: number
  readonly gapMs?: number
}

export const honest: Manner = { perEvent: 1, usage: 'exact', ending: 'both' }

export interface Asked {
  readonly messages: readonly { readonly role: string; readonly content: string }[]
  readonly max_tokens?: number
}

export interface BillingOptions {
  readonly prices: TokenCosts
  /** Tokens of the prompt, with the server's own instructions. */
  readonly promptTokens: (asked: Asked) => number
  /** The answer, token by token. */
  readonly answer: (asked: Asked) => readonly string[]
  /** @param nth request, from 0 */
  readonly manner: (nth: number) => Manner
  readonly clock: Clock
}

export interface BillingServer extends AsyncDisposable {
  /** Base URL of its API. */
  readonly url: string
  /** Requests so far. */
  readonly requests: number
  /** What went over the wire, in dollars: prompts, and tokens sent, up to those that were asked for. */
  readonly dollars: number
}

/** Beyond `max_tokens`. */
const excess = ' more'.repeat(100_000)

/** A server with OpenAI's API on loopback that charges each token it reads and sends, and may misreport all of it. */
export async function startBillingServer(options: BillingOptions): Promise<BillingServer> {
  let requests = 0
  let dollars = 0
  const charge = (promptTokens: number, tokens: number) => {
    dollars += costOf(options.prices, { promptTokens, tokens })
  }
  const server = await onLoopback(
    createServer((request, response) => {
      const manner = options.manner(requests)
      requests += 1
      respond(options, manner, request, response, charge).catch(() => response.destroy())
    }),
  )
  return {
    url: `http://127.0.0.1:${server.port}/v1`,
    get requests() {
      return requests
    },
    get dollars() {
      return dollars
    },
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
  }
}

async function respond(
  { promptTokens: promptTokensOf, answer, clock }: BillingOptions,
  manner: Manner,
  request: IncomingMessage,
  response: ServerResponse,
  charge: (promptTokens: number, tokens: number) => void,
): Promise<void> {
  const asked = JSON.parse((await readBody(request, 2 ** 24)).toString()) as Asked
  const { perEvent, usage, ending, exceeds = false, silentAfter = Number.POSITIVE_INFINITY, firstMs = 0, gapMs = 0 } = manner
  const limit = asked.max_tokens ?? Number.POSITIVE_INFINITY
  const tokens = answer(asked).slice(0, Math.min(limit, silentAfter))
  const promptTokens = promptTokensOf(asked)
  charge(promptTokens, 0)
  const send = (data: object | string) => response.write(`data: ${typeof data === 'string' ? data : JSON.stringify(data)}\n\n`)
  const sendText = (content: string) => send({ choices: [{ index: 0, delta: { content } }] })
  response.writeHead(200, { 'content-type': 'text/event-stream' })
  if (firstMs > 0) await clock.sleep(firstMs)
  for (let at = 0; at < tokens.length && !response.destroyed; at += perEvent) {
    const part = tokens.slice(at, at + perEvent)
    charge(0, part.length)
    sendText(part.join(''))
    if (gapMs > 0) await clock.sleep(gapMs)
  }
  if (tokens.length >= silentAfter) return
  if (exceeds) {
    charge(0, limit === Number.POSITIVE_INFINITY ? 0 : limit - tokens.length)
    sendText(excess)
  }
  const finish_reason = tokens.length >= limit ? 'length' : 'stop'
  if (ending === 'both' || ending === 'reason') send({ choices: [{ index: 0, delta: {}, finish_reason }] })
  const reported = usageOf(usage, promptTokens, tokens.length)
  if (reported) send({ choices: [], usage: reported })
  if (ending === 'both' || ending === 'done') send('[DONE]')
  response.end()
}

function usageOf(usage: Manner['usage'], prompt: number, completion: number): object | undefined {
  switch (usage) {
    case 'exact':
      return { prompt_tokens: prompt, completion_tokens: completion }
    case 'none':
      return undefined
    case 'small':
      return { prompt_tokens: 0, completion_tokens: 1 }
    case 'huge':
      return { prompt_tokens: 2 ** 50, completion_tokens: 2 ** 50 }
    case 'negative':
      return { prompt_tokens: -prompt, completion_tokens: -completion }
    case 'text':
      return { prompt_tokens: String(prompt), completion_tokens: null }
    case 'half':
      return { completion_tokens: completion }
  }
}
