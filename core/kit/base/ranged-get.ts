import type { IncomingMessage } from 'node:http'
import type { BrimError } from './errors.ts'

export interface RangedGet {
  readonly request: (url: URL, from: number) => Promise<IncomingMessage>
  /** The URL of a redirect, or an error if it is not allowed. @throws BrimError */
  readonly follow: (from: URL, location: string) => URL
  /** The error of a response that is neither the file nor a redirect. */
  readonly refused: (url: URL, response: IncomingMessage) => BrimError
  readonly tooManyRedirects: (max: number) => BrimError
}

const maxRedirects = 5

/**
 * Starts a GET at an offset, and follows redirects.
 * @returns the body, and `from`, its offset: the requested one, or 0 if the server ignores ranges
 * @throws BrimError as the functions do
 */
export async function startGet(
  url: URL,
  offset: number,
  { request, follow, refused, tooManyRedirects }: RangedGet,
): Promise<{ body: IncomingMessage; from: number }> {
  let at = url
  let from = offset
  for (let redirects = 0; redirects <= maxRedirects; redirects++) {
    const body = await request(at, from)
    const status = body.statusCode ?? 0
    if (status === 200) return { body, from: 0 }
    if (status === 206) {
      const [, first] = /^bytes (\d+)-/.exec(body.headers['content-range'] ?? '') ?? []
      if (Number(first) === from) return { body, from }
    }
    body.destroy()
    // The file is shorter than the part on disk, so it has changed: starts again.
    if (status === 416 && from > 0) {
      from = 0
      continue
    }
    const { location } = body.headers
    if (![301, 302, 303, 307, 308].includes(status) || location === undefined) throw refused(at, body)
    at = follow(at, location)
  }
  throw tooManyRedirects(maxRedirects)
}
