import { BrimError } from '../../core/base/errors.ts'
import { shownUrl } from '../../core/base/shown-url.ts'
import { type GetOptions, get, patiently, unavailable } from './get.ts'

/** A small document. @throws BrimError BUNDLE_INVALID if it is larger, and as get */
export const fetchSmall = (url: URL, maxBytes: number, options: GetOptions): Promise<Buffer> =>
  patiently(() => fetchOnce(url, maxBytes, options), options)

async function fetchOnce(url: URL, maxBytes: number, options: GetOptions): Promise<Buffer> {
  const { body } = await get(url, options)
  const chunks: Buffer[] = []
  let bytes = 0
  try {
    for await (const chunk of body as AsyncIterable<Buffer>) {
      bytes += chunk.byteLength
      if (bytes > maxBytes) throw new BrimError('BUNDLE_INVALID', `${shownUrl(url)} has more than ${maxBytes} bytes`)
      chunks.push(chunk)
    }
  } catch (cause) {
    options.signal.throwIfAborted()
    throw cause instanceof BrimError ? cause : unavailable(url, cause)
  } finally {
    body.destroy()
  }
  options.patience.onBytes()
  return Buffer.concat(chunks)
}
