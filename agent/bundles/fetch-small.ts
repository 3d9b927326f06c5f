import { BrimError } from '../../core/kit/base/errors.ts'
import { readBody } from '../../core/kit/base/http-client.ts'
import { shownUrl } from '../../core/kit/base/shown-url.ts'
import { type GetOptions, patiently, startDownload, unavailable } from './get.ts'

/** A small document. @throws BrimError BUNDLE_INVALID if it is larger, and as get */
export const fetchSmall = (url: URL, maxBytes: number, options: GetOptions): Promise<Buffer> =>
  patiently(() => fetchOnce(url, maxBytes, options), options)

async function fetchOnce(url: URL, maxBytes: number, options: GetOptions): Promise<Buffer> {
  const { body } = await startDownload(url, options)
  const tooLarge = () => new BrimError('BUNDLE_INVALID', `${shownUrl(url)} has more than ${maxBytes} bytes`)
  try {
    const bytes = await readBody(body, maxBytes, tooLarge)
    options.patience.onBytes()
    return bytes
  } catch (cause) {
    options.signal.throwIfAborted()
    throw cause instanceof BrimError ? cause : unavailable(url, cause)
  } finally {
    body.destroy()
  }
}
