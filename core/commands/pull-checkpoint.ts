import { existsSync } from 'node:fs'
import { systemClock } from '../kit/base/clock.ts'
import { BrimError } from '../kit/base/errors.ts'
import type { Io } from '../kit/base/io.ts'
import { type HubName, readHubName, repoOf } from '../model/hub/hub-name.ts'
import { hubSettings } from '../model/hub/hub-settings.ts'
import type { PulledModel } from '../model/hub/pull.ts'
import { showProgress } from './progress.ts'

/** A folder or file of this machine comes before a model of the same name at the hub. */
export const hubNameOf = (path: string): HubName | undefined => (existsSync(path) ? undefined : readHubName(path))

/** Downloads a model with progress on stderr. @throws BrimError as pullModel */
export async function pullWithProgress(name: HubName, file: string | undefined, io: Io): Promise<PulledModel> {
  const settings = hubSettings(io)
  const [{ Hub }, { pullModel }] = await Promise.all([import('../model/hub/hub.ts'), import('../model/hub/pull.ts')])
  const { signal } = io
  const progress = showProgress(io)
  const hub = new Hub({ settings, clock: systemClock, signal })
  try {
    return await pullModel({
      hub,
      name,
      file,
      folder: settings.folder,
      clock: systemClock,
      signal,
      onEvent: (event) => {
        if (event.kind === 'progress') progress.update(repoOf(name), event.doneBytes / event.totalBytes)
        else io.err(`another process downloads ${repoOf(name)}: waiting for it`)
      },
    })
  } finally {
    progress.end()
  }
}

/**
 * The checkpoint to build from: the path itself, or what a name at the hub was downloaded to, with the model's name if it has no other.
 * @throws BrimError USAGE, and as pullModel
 */
export async function checkpointOf(
  path: string,
  file: string | undefined,
  io: Io,
): Promise<{ readonly checkpoint: string; readonly name?: string }> {
  const name = hubNameOf(path)
  if (name) {
    const { path: checkpoint } = await pullWithProgress(name, file, io)
    // A GGUF file has a name of its own.
    return checkpoint.endsWith('.gguf') ? { checkpoint } : { checkpoint, name: name.name }
  }
  if (file === undefined) return { checkpoint: path }
  throw new BrimError('USAGE', `--file chooses a file of a model at the hub, and ${path} is none`, {
    hint: 'give the path of the file itself',
  })
}
