import { render } from 'preact'
import { useEffect, useMemo, useState } from 'preact/hooks'
import { AnswersPage } from './answers.tsx'
import { errorText, PageApi, type User } from './api.ts'
import { ChatPage } from './chat.tsx'
import { ChatModel } from './chat-model.ts'
import { DevicePage } from './device.tsx'
import { FleetPage } from './fleet.tsx'
import { FleetModel } from './fleet-model.ts'
import { JobPage, JobsPage } from './jobs.tsx'
import { LoginForm } from './login.tsx'
import { MetricsModel } from './metrics.ts'
import { useTask } from './model.ts'
import { OwnDevicePage } from './own-device.tsx'
import { Notice } from './parts.tsx'
import { RolloutPage, RolloutsPage } from './rollouts.tsx'

interface View {
  readonly name: string
  readonly title: string
}

/** What the user's role may see. A `client` asks, and sees nothing else. */
function viewsOf({ server }: PageApi, { role }: User): readonly View[] {
  const chat = { name: 'chat', title: 'Chat' }
  const answers = { name: 'answers', title: 'Answers' }
  if (server === 'agent') return [{ name: 'own', title: 'Device' }, chat, answers]
  if (role === 'client') return [chat, answers]
  const jobs = role === 'viewer' ? [] : [{ name: 'jobs', title: 'Jobs' }]
  return [
    { name: 'fleet', title: 'Fleet' },
    ...(role === 'viewer' ? [] : [chat]),
    answers,
    ...jobs,
    { name: 'rollouts', title: 'Rollouts' },
  ]
}

/** `#/device/jetson-01` → device, jetson-01 */
function routeOf(hash: string): readonly [view: string, id: string] {
  const [view = '', id = ''] = hash.replace(/^#\//, '').split('/')
  try {
    return [view, decodeURIComponent(id)]
  } catch {
    return [view, '']
  }
}

function App({ api }: { readonly api: PageApi }) {
  const [login, setLogin] = useState<User>()
  const [problem, setProblem] = useState<string>()
  const [isReady, setReady] = useState(false)
  async function logIn() {
    try {
      setLogin(await api.login())
      setProblem(undefined)
    } catch (error) {
      setProblem(errorText(error))
    }
    setReady(true)
  }
  useEffect(() => {
    api.onRefused = () => {
      api.setKey(undefined)
      setLogin(undefined)
      setProblem('the server does not accept this key')
    }
    void logIn()
  }, [api])
  if (!isReady) return null
  if (login)
    return (
      <Views
        api={api}
        login={login}
        leave={() => {
          api.setKey(undefined)
          setLogin(undefined)
        }}
      />
    )
  return (
    <LoginForm
      server={api.server}
      problem={problem}
      onKey={(key) => {
        api.setKey(key)
        void logIn()
      }}
    />
  )
}

function Views({ api, login, leave }: { readonly api: PageApi; readonly login: User; readonly leave: () => void }) {
  const views = viewsOf(api, login)
  const [[view, id], setRoute] = useState(() => routeOf(location.hash))
  useEffect(() => {
    const change = () => setRoute(routeOf(location.hash))
    addEventListener('hashchange', change)
    return () => removeEventListener('hashchange', change)
  }, [])
  const isBridge = api.server === 'bridge'
  const seesFleet = isBridge && login.role !== 'client'
  const isOperator = isBridge && login.role !== 'client' && login.role !== 'viewer'
  const { fleet, chat, metrics } = useMemo(
    () => ({ fleet: new FleetModel(api), chat: new ChatModel(api), metrics: new MetricsModel(api) }),
    [api],
  )
  // While another view is open, too: the list is up to date at once.
  useTask((signal) => (seesFleet ? fleet.follow(signal) : undefined), [fleet, seesFleet])
  const shown = view === '' ? views[0]!.name : view
  const current = { device: 'fleet', job: 'jobs', rollout: 'rollouts' }[shown] ?? shown
  return (
    <>
      <button type="button" class="skip" onClick={() => document.getElementById('main')?.focus()}>
        Skip to the content
      </button>
      <header>
        <strong class="brand">Brim</strong>
        <nav aria-label="Views">
          {views.map(({ name, title }) => (
            <a href={`#/${name}`} aria-current={name === current ? 'page' : undefined} key={name}>
              {title}
            </a>
          ))}
        </nav>
        <span class="who">
          {login.name}
          {login.role === 'owner' ? '' : ` · ${login.role}`}{' '}
          {api.hasKey && (
            <button type="button" class="plain" onClick={leave}>
              Log out
            </button>
          )}
        </span>
      </header>
      <main id="main" tabIndex={-1}>
        {shownView()}
      </main>
    </>
  )

  function shownView() {
    switch (shown) {
      case 'own':
        return <OwnDevicePage api={api} />
      case 'fleet':
        return <FleetPage fleet={fleet} metrics={metrics} />
      case 'device':
        return <DevicePage api={api} id={id} isOperator={isOperator} key={id} />
      case 'chat':
        return <ChatPage chat={chat} />
      case 'answers':
        return <AnswersPage api={api} chat={chat} metrics={seesFleet ? metrics : undefined} isOperator={isOperator} />
      case 'jobs':
        return <JobsPage api={api} />
      case 'job':
        return <JobPage api={api} id={id} key={id} />
      case 'rollouts':
        return <RolloutsPage api={api} isOperator={isOperator} />
      case 'rollout':
        return <RolloutPage api={api} id={id} isOperator={isOperator} key={id} />
      default:
        return <Notice text={`there is no view "${shown}"`} isProblem />
    }
  }
}

render(<App api={new PageApi(document.documentElement.dataset)} />, document.body)
