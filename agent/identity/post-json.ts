import type { z } from 'zod'
import { BrimError } from '../../core/kit/base/errors.ts'
import { type BridgeAddress, readBody } from '../../core/kit/base/http-client.ts'
import { askServer, notOurs } from '../../core/wire/openai/ask-server.ts'
import { readMessage } from '../../core/wire/protocol/read-message.ts'

const timeoutMs = 10_000
/** No response of a bridge is longer. The limit keeps another server from filling the memory. */
const maxResponseBytes = 64 * 1024

/**
 * Sends one JSON request to a bridge and parses its response.
 * @throws BrimError BRIDGE_UNREACHABLE, IDENTITY_INVALID, or the error with which the bridge rejects it
 */
export async function postJson<T>(
  { url, pin }: BridgeAddress,
  { path, response: schema }: { readonly path: string; readonly response: z.ZodType<T> },
  body: unknown,
  signal?: AbortSignal,
): Promise<T> {
  const bridge = { server: 'bridge', url, pin, hint: 'is the bridge running, and is this its HTTP address?' } as const
  const timeout = AbortSignal.timeout(timeoutMs)
  const ended = signal ? AbortSignal.any([signal, timeout]) : timeout
  try {
    const response = await askServer(bridge, path, { method: 'POST', body: JSON.stringify(body), signal: ended })
    const read = readMessage(schema, await readBody(response, maxResponseBytes))
    if (read.kind === 'message') return read.message
    throw notOurs(bridge, response, new Error(`unreadable response: ${read.reason}`))
  } catch (cause) {
    signal?.throwIfAborted()
    if (cause instanceof BrimError) throw cause
    throw new BrimError('BRIDGE_UNREACHABLE', `no bridge responds at ${url}`, { cause, hint: bridge.hint })
  }
}
