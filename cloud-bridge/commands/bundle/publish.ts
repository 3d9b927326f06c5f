import { open } from 'node:fs/promises'
import { join } from 'node:path'
import type { Clock } from '../../../core/kit/base/clock.ts'
import { BrimError } from '../../../core/kit/base/errors.ts'
import { verifyHashes } from '../../../core/model/bundle/bundle.ts'
import { bundleOperations } from '../../../core/wire/protocol/http/bundles.ts'
import { releaseOperations } from '../../../core/wire/protocol/http/releases.ts'
import { type MissingFile, maxPieceBytes, type Published, uploadOperations } from '../../../core/wire/protocol/http/uploads.ts'
import type { BridgeClient } from '../bridge-client.ts'
import type { BundlePackage, ReleasePackage } from './package.ts'

export interface PublishOptions {
  /** Called with the uploaded and the total bytes of what the bridge did not have. */
  readonly onUploaded: (doneBytes: number, totalBytes: number) => void
  readonly clock: Clock
  readonly signal: AbortSignal
}

/**
 * Verifies a bundle or release here, uploads what the bridge does not have of it, and publishes it. Called again after an
 * interruption, it goes on where it stopped.
 * @returns bytes that were uploaded
 * @throws BrimError BUNDLE_CORRUPT, SIGNATURE_INVALID, DISK_FULL, and as the client
 */
export async function publishPackage(
  client: BridgeClient,
  found: BundlePackage | ReleasePackage,
  options: PublishOptions,
): Promise<number> {
  const request = async (): Promise<Published> => {
    if (found.kind === 'bundle')
      return (await client.call(bundleOperations.publish, { body: { manifest: found.text, signatures: found.signatures } })).value
    const { sha256, bytes, version, platform, signatures } = found
    if (!signatures)
      throw new BrimError('SIGNATURE_INVALID', `${found.archive} is not signed, and no device installs unsigned software`, {
        hint: `brim bundle sign ${found.archive} --key <file>`,
      })
    return (await client.call(releaseOperations.publish, { body: { sha256, bytes, version, platform, signatures } })).value
  }
  const { missing } = await request()
  if (missing.length === 0) return 0
  if (found.kind === 'bundle') await verifyHashes(found.folder, found.manifest)
  const total = missing.reduce((sum, { bytes, uploadedBytes }) => sum + bytes - uploadedBytes, 0)
  let done = 0
  for (const file of missing) {
    const onBytes = (bytes: number) => {
      done += bytes
      options.onUploaded(done, total)
    }
    await uploadFile(client, pathOf(found, file), file, onBytes, options)
  }
  const { missing: left } = await request()
  if (left.length === 0) return done
  throw new BrimError('BUNDLE_UNAVAILABLE', `the bridge still lacks ${left.length} files`, { hint: 'push it again' })
}

function pathOf(found: BundlePackage | ReleasePackage, { sha256 }: MissingFile): string {
  if (found.kind === 'software') return found.archive
  const file = found.manifest.files.find((each) => each.sha256 === sha256)
  if (file) return join(found.folder, file.path)
  throw new BrimError('MESSAGE_INVALID', `the bridge asks for a file that the manifest does not list: ${sha256}`)
}

/** Failures in a row: broken connections, or pieces that the bridge does not take because another push uploads the same file. */
const maxFailures = 5
const retryMs = 1_000
const firstPieceBytes = 2 ** 20
/** A piece must arrive within the time that a bridge gives one request. */
const quickMs = 2_000

async function uploadFile(
  client: BridgeClient,
  path: string,
  { sha256, bytes, uploadedBytes }: MissingFile,
  onBytes: (bytes: number) => void,
  { clock, signal }: PublishOptions,
): Promise<void> {
  await using file = await open(path)
  let at = uploadedBytes
  let failures = 0
  let pieceBytes = firstPieceBytes
  const buffer = Buffer.alloc(Math.min(maxPieceBytes, bytes))
  while (at < bytes) {
    const { bytesRead } = await file.read(buffer, 0, Math.min(pieceBytes, buffer.length), at)
    if (bytesRead === 0) throw new BrimError('BUNDLE_CORRUPT', `${path} has become shorter during the upload`)
    const args = { params: { sha256 }, query: { from: at } }
    const startedMs = clock.nowMs()
    const sent = client.upload(uploadOperations.append, args, buffer.subarray(0, bytesRead))
    const have = await sent.then(
      (response) => response.bytes,
      (error: unknown) => {
        if (!(error instanceof BrimError) || error.code !== 'BRIDGE_UNREACHABLE' || failures + 1 >= maxFailures) throw error
        // What arrived of the piece is there: the next response says how much.
        return at
      },
    )
    failures = have === at ? failures + 1 : 0
    if (failures >= maxFailures)
      throw new BrimError('BUNDLE_UNAVAILABLE', `the bridge takes no more of ${path}: is it being pushed elsewhere too?`, {
        hint: 'push it again later',
      })
    if (failures > 0) await clock.sleep(retryMs * failures, signal)
    else pieceBytes = clock.nowMs() - startedMs < quickMs ? Math.min(2 * pieceBytes, maxPieceBytes) : firstPieceBytes
    onBytes(Math.max(0, have - at))
    at = have
  }
}
