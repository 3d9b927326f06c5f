import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { projectRoot } from '../../../core/kit/base/version.ts'
import { acceptanceBench } from '../../../lab/bench/acceptance/bench.ts'
import { chaosBench } from '../../../lab/bench/chaos/bench.ts'
import { discoBench } from '../../../lab/bench/disco/bench.ts'
import { discoPlanBench } from '../../../lab/bench/disco-plan.ts'
import { engineBench } from '../../../lab/bench/engine/bench.ts'
import { failoverBench } from '../../../lab/bench/failover/bench.ts'
import { hatBench } from '../../../lab/bench/hat/bench.ts'
import { piceBench } from '../../../lab/bench/pice/bench.ts'
import { privacyBench } from '../../../lab/bench/privacy/bench.ts'
import { queueBench } from '../../../lab/bench/queue/bench.ts'
import { simulatorBench } from '../../../lab/bench/simulator/bench.ts'
import { telemetryBench } from '../../../lab/bench/telemetry.ts'
import { tokenFlowBench } from '../../../lab/bench/tokenflow/bench.ts'
import { tokenFlowPlanBench } from '../../../lab/bench/tokenflow-plan.ts'
import { validationBench } from '../../../lab/bench/validation/bench.ts'
import { benchPage, goalTable, shownOf } from '../../../lab/frame/page.ts'
import { readDocument } from '../../../lab/frame/results.ts'
import { renderFigure } from '../../../lab/plot/plot.ts'
import { fleetBench } from '../../../lab/simulate/fleet/bench.ts'
import { discoPaperBench } from '../../../lab/simulate/paper/disco/bench.ts'
import { hatPaperBench } from '../../../lab/simulate/paper/hat/bench.ts'
import { picePaperBench } from '../../../lab/simulate/paper/pice/bench.ts'
import { tokenFlowPaperBench } from '../../../lab/simulate/paper/tokenflow/bench.ts'
import { scaleBench } from '../../../lab/simulate/scale/bench.ts'

const benches = [
  acceptanceBench,
  chaosBench,
  discoBench,
  discoPlanBench,
  discoPaperBench,
  engineBench,
  failoverBench,
  fleetBench,
  hatBench,
  hatPaperBench,
  piceBench,
  picePaperBench,
  privacyBench,
  queueBench,
  scaleBench,
  simulatorBench,
  telemetryBench,
  tokenFlowBench,
  tokenFlowPaperBench,
  tokenFlowPlanBench,
  validationBench,
]
const results = new URL('docs/results/', projectRoot)
const textOf = (path: string) => readFileSync(new URL(path, results), 'utf8')

it('keeps no raw samples: no file is larger than 200 KB', () => {
  const folder = fileURLToPath(results)
  const files = readdirSync(folder, { recursive: true, encoding: 'utf8' })
  expect(files.filter((file) => statSync(join(folder, file)).size > 200_000)).toEqual([])
})

describe.each(benches)('the saved results of bench $name', ({ name, report, goals }) => {
  const saved = () => readDocument(fileURLToPath(new URL(`${name}/${name}.json`, results)), { name })

  it('have the page and figure that the code makes of their document', async () => {
    const document = await saved()
    expect(textOf(`${name}/${name}.md`)).toBe(benchPage(document, report, goals))
    expect(textOf(`${name}/${name}.svg`)).toBe(renderFigure(shownOf(document, report).figure))
  })

  it('are linked in docs/results/README.md, which names every missed goal', async () => {
    const index = textOf('README.md')
    expect(index).toContain(`(${name}/${name}.md)`)
    const missed = goalTable(await saved(), goals).rows.filter(([, , , verdict]) => verdict === 'missed')
    for (const [figure] of missed) expect(index).toContain(`\`${figure}\``)
  })
})
