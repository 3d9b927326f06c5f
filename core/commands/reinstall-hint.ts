import { existsSync } from 'node:fs'
import { projectRoot } from '../kit/base/version.ts'

/** How to restore native packages that are missing or do not load: an installed package has no scripts. */
export const reinstallHint = (root: URL = projectRoot): string =>
  existsSync(new URL('scripts/setup', root)) ? 'run scripts/setup again' : 'install Brim again (docs/packages.md)'
