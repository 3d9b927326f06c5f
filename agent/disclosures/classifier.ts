import { z } from 'zod'
import { readBody, sendRequest } from '../../core/kit/base/http-client.ts'

const Verdict = z.object({ allow: z.boolean() })
const maxBodyBytes = 65_536

/**
 * Whether a local classifier lets a server see a text.
 * @param url on loopback: it sees every prompt that a server may see
 * @param timeoutMs of the whole exchange
 * @throws whatever keeps it from saying so, the signal's reason included
 */
export async function classifierAllows(text: string, url: string, timeoutMs: number, signal: AbortSignal): Promise<boolean> {
  const until = AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)])
  const response = await sendRequest(new URL(url), { method: 'POST', body: JSON.stringify({ text }), signal: until })
  if (response.statusCode === 200) return Verdict.parse(JSON.parse((await readBody(response, maxBodyBytes)).toString())).allow
  response.destroy()
  throw new Error(`status ${response.statusCode}`)
}
