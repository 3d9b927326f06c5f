import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { parseAllDocuments } from 'yaml'
import { run } from '../../../brim.ts'
import { projectRoot } from '../../../core/kit/base/version.ts'
import { captureIo } from '../../support/captured-io.ts'
import { tempDir } from '../../support/temp-dir.ts'

interface Container {
  readonly args: readonly string[]
  readonly env: readonly { readonly name: string }[]
  readonly ports: readonly { readonly name: string; readonly containerPort: number }[]
  readonly readinessProbe: { readonly httpGet: { readonly path: string; readonly port: string } }
  readonly volumeMounts: readonly { readonly name: string; readonly mountPath: string }[]
}
interface Manifest {
  readonly kind: string
  readonly data: Readonly<Record<string, string>>
  readonly spec: {
    readonly selector: { readonly matchLabels: object } & object
    readonly replicas: number
    readonly template: {
      readonly metadata: { readonly labels: object }
      readonly spec: { readonly containers: readonly Container[]; readonly volumes: readonly { readonly name: string }[] }
    }
  }
}

const text = readFileSync(new URL('docs/examples/several-bridges/kubernetes.yaml', projectRoot), 'utf8')
const manifests = parseAllDocuments(text).map((document) => {
  expect(document.errors).toEqual([])
  return document.toJS() as Manifest
})
const of = (kind: string) => manifests.find((manifest) => manifest.kind === kind)!

describe('the Kubernetes example of several bridges', () => {
  const { spec } = of('StatefulSet')
  const [container] = spec.template.spec.containers as [Container]

  it('has a configuration and arguments that a bridge takes', async () => {
    using dir = tempDir()
    const file = join(dir.path, 'bridge.yaml')
    writeFileSync(file, of('ConfigMap').data['bridge.yaml']!, { mode: 0o600 })
    expect(container.args.slice(0, 3)).toEqual(['bridge', 'run', '--config=/etc/brim/bridge.yaml'])
    const values: Record<string, string> = { POD_NAME: 'brim-bridge-0', POD_IP: '10.0.0.5' }
    const words = container.args.slice(3).map((word) => word.replace(/\$\((\w+)\)/, (_, name: string) => values[name]!))
    const { io, err } = captureIo()
    // Its files are not here: what is checked is that each option exists, and that they go together.
    const code = await run(['bridge', 'config', 'show', '--config', file, ...words], io)
    expect(err()).toBe('')
    expect(code).toBe(0)
  })

  it('refers to what it defines', () => {
    const labels = spec.template.metadata.labels
    expect(spec.selector.matchLabels).toEqual(labels)
    expect(of('PodDisruptionBudget').spec.selector.matchLabels).toEqual(labels)
    expect(of('Service').spec.selector).toEqual(labels)
    expect(spec.replicas).toBeGreaterThan(1)
    const volumes = spec.template.spec.volumes.map(({ name }) => name)
    for (const { name } of container.volumeMounts) expect(volumes).toContain(name)
    const names = container.args.flatMap((word) => [...word.matchAll(/\$\((\w+)\)/g)].map(([, name]) => name))
    expect(container.env.map(({ name }) => name)).toEqual(expect.arrayContaining(names))
    expect(container.ports.map(({ name }) => name)).toContain(container.readinessProbe.httpGet.port)
  })
})
