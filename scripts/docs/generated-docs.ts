import { projectRoot } from '../../core/base/version.ts'
import { asyncApi } from './asyncapi.ts'
import { topicsPage } from './topics-page.ts'

/** What `npm run docs` writes; a test fails where it is not what stands there. */
export function generatedDocs(): { readonly file: URL; readonly text: string }[] {
  return [
    { file: new URL('docs/topics.md', projectRoot), text: topicsPage() },
    { file: new URL('docs/asyncapi.json', projectRoot), text: `${JSON.stringify(asyncApi(), null, 2)}\n` },
  ]
}
