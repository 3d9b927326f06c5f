import { BrimError } from '../../core/kit/base/errors.ts'
import { downloadResumed } from '../../core/kit/base/resumed-download.ts'
import { sha256OfFile } from '../../core/kit/base/sha256-of-file.ts'
import { type GetOptions, patiently, startDownload, unavailable } from './get.ts'

interface WantedFile {
  readonly url: URL
  readonly to: string
  readonly bytes: number
  readonly sha256: string
}

/**
 * Downloads one file, and continues the download of an interrupted call. The file is on disk on return.
 * @param onBytes called with the number of the file's bytes on disk
 * @returns whether the hash is right, otherwise the file is deleted; and the bytes received over the network
 * @throws BrimError as get, BUNDLE_CORRUPT for more bytes than announced, DISK_FULL
 */
export async function fetchFile(
  { url, to, bytes, sha256 }: WantedFile,
  options: GetOptions,
  onBytes: (count: number) => void,
): Promise<{ isIntact: boolean; fetchedBytes: number }> {
  let fetchedBytes = 0
  const wanted = { url, to, bytes, isIntact: async () => (await sha256OfFile(to, options.signal)) === sha256 }
  const isIntact = await downloadResumed(wanted, {
    start: (from) => startDownload(url, { ...options, from }),
    patiently: (attempt) => patiently(attempt, options),
    unavailable: (cause) => unavailable(url, cause),
    corrupt: (message) => new BrimError('BUNDLE_CORRUPT', message),
    onChunk: (received, end) => {
      options.patience.onBytes()
      fetchedBytes += received
      onBytes(end)
    },
    signal: options.signal,
  })
  onBytes(bytes)
  return { isIntact, fetchedBytes }
}
