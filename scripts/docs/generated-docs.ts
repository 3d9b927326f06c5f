import { projectRoot } from '../../core/kit/base/version.ts'
import { scenarioSchema } from '../../lab/simulate/scenario/schema.ts'
import { asyncApi } from './asyncapi.ts'
import { cliPage } from './cli-page.ts'
import { configPage } from './config-page.ts'
import { apiPage } from './conformance-table.ts'
import { limitsPage } from './limits-page.ts'
import { metricsPage } from './metrics-page.ts'
import { openApiDocument } from './openapi.ts'
import { topicsPage } from './topics-page.ts'

interface GeneratedDoc {
  readonly file: URL
  readonly text: string
}

/** What `npm run docs` writes. A test fails when a file is out of date. */
export async function generatedDocs(): Promise<GeneratedDoc[]> {
  return [
    { file: new URL('docs/api.md', projectRoot), text: apiPage() },
    { file: new URL('docs/cli.md', projectRoot), text: await cliPage() },
    { file: new URL('jetson/agent.yaml', projectRoot), text: await configPage('agent') },
    { file: new URL('jetson/bridge.yaml', projectRoot), text: await configPage('bridge') },
    { file: new URL('docs/limits.md', projectRoot), text: limitsPage() },
    { file: new URL('docs/metrics.md', projectRoot), text: metricsPage() },
    { file: new URL('docs/topics.md', projectRoot), text: topicsPage() },
    { file: new URL('docs/asyncapi.json', projectRoot), text: `${JSON.stringify(asyncApi(), null, 2)}\n` },
    { file: new URL('docs/scenario.schema.json', projectRoot), text: `${JSON.stringify(scenarioSchema(), null, 2)}\n` },
    { file: new URL('docs/openapi.json', projectRoot), text: `${JSON.stringify(openApiDocument(), null, 2)}\n` },
  ]
}
