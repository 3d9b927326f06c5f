import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { SerialQueue } from '../../core/model/engine/serial-queue.ts'
import type { SignatureFile } from '../../core/wire/signing/signature.ts'
import { PublishedBundles } from './published-bundles.ts'
import { Releases } from './releases.ts'
import { openServedBundles, type ServedBundles } from './served-bundles.ts'
import { Uploads } from './uploads.ts'

export interface BundleStoreOptions {
  /** Folders of the bundles that the bridge serves itself. */
  readonly own: readonly string[]
  /** Folder of the other bundles, and of what operators push; created when it is needed. */
  readonly folder: string
  /** Of uploads that are not published yet. */
  readonly uploadBytes: number
  readonly wallMs: () => number
}

export interface BundleStore {
  readonly served: ServedBundles
  readonly uploads: Uploads
  readonly releases: Releases
  publishBundle(manifest: string, signatures: SignatureFile | undefined): ReturnType<PublishedBundles['publish']>
  publishRelease(release: Parameters<Releases['publish']>[0]): ReturnType<Releases['publish']>
}

/** What devices install from this bridge: bundles and releases of the agent. Both are published one at a time. */
export function openBundleStore({ own, folder, uploadBytes, wallMs }: BundleStoreOptions): BundleStore {
  const served = openServedBundles({ own, folder })
  // In the same folder, so that publishing needs no copies.
  const uploads = new Uploads(join(folder, '.uploads'), uploadBytes)
  const staging = join(folder, '.incoming')
  const bundles = new PublishedBundles({ folder, staging, uploads, served })
  const releases = new Releases({ folder: join(folder, '.releases'), staging, uploads, wallMs })
  const turns = new SerialQueue()
  const inTurn = <T>(publish: () => Promise<T>): Promise<T> =>
    turns.run(async () => {
      // What a killed bridge has left.
      await rm(staging, { recursive: true, force: true })
      await uploads.removeAbandoned(wallMs())
      return publish()
    })
  return {
    served,
    uploads,
    releases,
    publishBundle: (manifest, signatures) => inTurn(() => bundles.publish(manifest, signatures)),
    publishRelease: (release) => inTurn(() => releases.publish(release)),
  }
}
