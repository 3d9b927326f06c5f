import type { z } from 'zod'
import { BrimError, type ErrorCode, errorCodes } from '../../core/base/errors.ts'
import { Refusal } from '../../core/protocol/identity.ts'

const timeoutMs = 10_000

/**
 * One JSON request to a bridge, one answer.
 * @throws BrimError BRIDGE_UNREACHABLE, or what the bridge refused it with
 */
export async function postJson<T>(url: URL, body: unknown, reply: z.ZodType<T>, signal?: AbortSignal): Promise<T> {
  const late = AbortSignal.timeout(timeoutMs)
  let status: number
  let text: string
  try {
    const response = await fetch(url, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
      redirect: 'error',
      signal: signal ? AbortSignal.any([signal, late]) : late,
    })
    status = response.status
    text = await response.text()
  } catch (cause) {
    if (signal?.aborted) throw signal.reason
    throw unreachable(url, cause)
  }
  const json = parse(text)
  if (status === 200) {
    const answer = reply.safeParse(json)
    if (answer.success) return answer.data
    throw unreachable(url, answer.error)
  }
  const refusal = Refusal.safeParse(json)
  if (!refusal.success) throw unreachable(url, new Error(`HTTP status ${status}`))
  const { code, message, hint } = refusal.data.error
  throw new BrimError(isCode(code) ? code : 'NOT_AUTHORIZED', message, hint === undefined ? {} : { hint })
}

const isCode = (code: string): code is ErrorCode => Object.hasOwn(errorCodes, code)

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

const unreachable = (url: URL, cause: unknown) =>
  new BrimError('BRIDGE_UNREACHABLE', `the bridge at ${url.origin} did not answer as a bridge does`, {
    cause: cause instanceof Error && cause.cause instanceof Error ? cause.cause : cause,
    hint: 'is it running, and is that its HTTP address?',
  })
